//go:build linux

package main

import (
	"bytes"
	"context"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// announcement is what serve prints. It is closed by the last line.
type announcement struct {
	text bytes.Buffer
	done chan struct{}
	once sync.Once
}

func (a *announcement) Write(p []byte) (int, error) {
	a.text.Write(p)
	if bytes.Contains(a.text.Bytes(), []byte("Ctrl-C")) {
		a.once.Do(func() { close(a.done) })
	}
	return len(p), nil
}

// The server has the model until the context ends.
func TestServe(t *testing.T) {
	if testing.Short() {
		t.Skip("Triton's server takes seconds to start")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &announcement{done: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, out, "../../../..") }()
	select {
	case <-out.done:
	case err := <-ended:
		t.Fatalf("serve: %v", err)
	}
	url := regexp.MustCompile(`HTTP: (\S+)`).FindStringSubmatch(out.text.String())[1]
	client := http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	answer, err := client.Get(url + "/v2/models/digits/ready")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("the model digits: %s", answer.Status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestNoPython(t *testing.T) {
	t.Setenv("DLX_TRITON_PYTHON", "")
	if err := serve(t.Context(), new(bytes.Buffer), t.TempDir()); err == nil {
		t.Error("a folder without a server: no error")
	}
}
