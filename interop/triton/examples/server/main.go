//go:build linux

// Command server runs Triton's server with the model of examples/classify until it is interrupted. It prints the
// addresses when the server is ready. make .venv-triton/ready installs the server.
//
//	go run ./examples/server -root ../..
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dlx-go/dlx/interop/triton/internal/realserver"
)

func main() {
	log.SetFlags(0)
	root := flag.String("root", "../..", "the folder of the module dlx, which has .venv-triton and testdata")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Stdout, *root); err != nil {
		log.Fatal(err)
	}
}

// serve runs the server until ctx ends.
func serve(ctx context.Context, out io.Writer, root string) (err error) {
	python, err := realserver.Python(root)
	if err != nil {
		return err
	}
	testdata, err := filepath.Abs(filepath.Join(root, "testdata"))
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "dlx-triton")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	server, err := realserver.New(python, folder, realserver.Digits(testdata))
	if err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := server.Run(ready); err != nil {
		return err
	}
	defer server.Stop()
	fmt.Fprintf(out, "gRPC: %s\nHTTP: %s\nPress Ctrl-C to end the server.\n", server.GRPC, server.HTTP)
	select {
	case <-ctx.Done():
		return nil
	case <-server.Ended():
		return fmt.Errorf("the server ended: %s", server.Log())
	}
}
