package minimalbackend_test

import (
	"go/scanner"
	"go/token"
	"os"
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/examples/minimalbackend"
)

func TestMain(m *testing.M) { coretest.Main(m) }

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(tb testing.TB) core.Device {
		d, err := minimalbackend.New().Open(tb.Context(), core.DeviceID{Type: core.DeviceExt})
		if err != nil {
			tb.Fatal(err)
		}
		return d
	}, backendtest.Options{})
}

// The guide promises a backend that can be read in one go.
func TestBackendIsShort(t *testing.T) {
	source, err := os.ReadFile("backend.go")
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	file := files.AddFile("backend.go", -1, len(source))
	var s scanner.Scanner // without ScanComments, it skips comments
	s.Init(file, source, nil, 0)
	lines := make(map[int]bool)
	for {
		at, kind, _ := s.Scan()
		if kind == token.EOF {
			break
		}
		lines[file.Line(at)] = true
	}
	const limit = 150
	if n := len(lines); n > limit {
		t.Errorf("backend.go has %d lines of code, more than %d", n, limit)
	}
}
