package main

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
)

func TestPagesAndFiguresAreWritten(t *testing.T) {
	folder := t.TempDir()
	for _, c := range []struct {
		file, flag string
		args       []string
		holds      string
	}{
		{"bench.html", "--html", []string{"bench", "-t", "memory/alloc/4KiB", "-i", "2", "--rounds", "1"}, "memory/alloc/4KiB"},
		{"bench.svg", "--plot", []string{"bench", "-t", "memory/alloc/4KiB", "-i", "2", "--rounds", "1"}, "<svg"},
		{"bench.PNG", "--plot", []string{"bench", "-t", "memory/alloc/4KiB", "-i", "2", "--rounds", "1"}, "PNG"},
		{"devices.html", "--html", []string{"devices"}, "dlx devices"},
		{"plan.html", "--html", []string{"plan", "--from", "cpu", "--to", "cpu"}, "use the memory as it is"},
	} {
		path := filepath.Join(folder, c.file)
		var out, log bytes.Buffer
		if code := run(t.Context(), all.New(), append(c.args, c.flag, path), nil, &out, &log); code != exitOK {
			t.Errorf("%s: exit code %d: %s", c.file, code, &log)
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(content, []byte(c.holds)) {
			t.Errorf("%s: %v, %.200s", c.file, err, content)
		}
		if out.Len() == 0 || strings.Contains(out.String(), "<html") {
			t.Errorf("%s: the output is %.200s", c.file, &out)
		}
		if strings.HasSuffix(path, "PNG") {
			if _, err := png.Decode(bytes.NewReader(content)); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAPageOnStandardOutputIsAlone(t *testing.T) {
	var out, log bytes.Buffer
	if code := run(t.Context(), all.New(), []string{"devices", "--html", "-"}, nil, &out, &log); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &log)
	}
	if page := out.String(); !strings.HasPrefix(page, "<!DOCTYPE html>") || !strings.HasSuffix(page, "</html>\n") {
		t.Errorf("%.100s ... %s", page, page[max(0, len(page)-100):])
	}
}

func TestWhatCannotBeWrittenIsRefusedFirst(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "missing", "file.html")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"bench", "-t", "memory/alloc/4KiB", "--plot", "figure.pdf"}, exitUsage, ".svg or .png"},
		{[]string{"bench", "-t", "memory/alloc/4KiB", "--html", nowhere}, exitFailed, "missing"},
		{[]string{"devices", "--html", nowhere}, exitFailed, "missing"},
		{[]string{"plan", "--html", nowhere}, exitFailed, "missing"},
		{[]string{"devices", "--html", "-", "--json"}, exitFailed, "standard output takes one result"},
	} {
		var out, log bytes.Buffer
		code := run(t.Context(), all.New(), c.args, nil, &out, &log)
		if code != c.code || !strings.Contains(log.String(), c.says) {
			t.Errorf("%q: exit code %d, want %d: %s", c.args, code, c.code, &log)
		}
	}
}
