//go:build linux

package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/dlx-go/dlx/internal/strictjson"
)

//go:embed peers.py
var script string

// peerLoaders are the loaders of other projects, by their names in peers.py.
var peerLoaders = []string{"safetensors.torch", "safetensors.numpy", "torch.load(mmap=True)", "torch.load", "fastsafetensors", "runai-model-streamer"}

// peers is a Python process that loads files.
type peers struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// startPeers starts the process. The caller closes it.
func startPeers(python string) (*peers, error) {
	p := &peers{command: exec.Command(python, "-c", script)}
	p.command.Stderr = os.Stderr
	p.command.Env = append(os.Environ(), "RUNAI_STREAMER_MEMORY_LIMIT=-1", "PYTHONDONTWRITEBYTECODE=1")
	in, err := p.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewReader(out)
	return p, p.command.Start()
}

// close ends the process.
func (p *peers) close() {
	_ = p.in.Close()
	_ = p.command.Wait()
}

// ask sends a request and decodes the answer.
func (p *peers) ask(request, answer any) error {
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("the Python process has ended: %w", err)
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the Python process has ended: %w", err)
	}
	var failure struct {
		Error string `json:"error"`
	}
	if err := strictjson.Unmarshal(line, &failure); err == nil && failure.Error != "" {
		return errors.New(failure.Error)
	}
	return strictjson.Unmarshal(line, answer)
}

func (p *peers) versions() (map[string]string, error) {
	var v map[string]string
	return v, p.ask(map[string]bool{"versions": true}, &v)
}

// prepare writes the tensors of a .safetensors file with torch.save.
func (p *peers) prepare(path, to string) error {
	return p.ask(map[string]any{"prepare": true, "path": path, "to": to}, new(struct{}))
}

// open measures how long the reference implementation takes to open a .safetensors file.
func (p *peers) open(path string, tensors int) (time.Duration, error) {
	var a struct {
		Seconds float64 `json:"seconds"`
		Tensors int     `json:"tensors"`
	}
	if err := p.ask(map[string]string{"open": path}, &a); err != nil {
		return 0, err
	}
	if a.Tensors != tensors {
		return 0, fmt.Errorf("%d tensors", a.Tensors)
	}
	return time.Duration(a.Seconds * 1e9), nil
}

// load measures a loader.
func (p *peers) load(loader, path string, f fileResult) (time.Duration, error) {
	var a struct {
		Seconds float64 `json:"seconds"`
		Tensors int     `json:"tensors"`
		Bytes   int64   `json:"bytes"`
	}
	if err := p.ask(map[string]string{"loader": loader, "path": path}, &a); err != nil {
		return 0, err
	}
	if a.Tensors != f.Tensors || a.Bytes != int64(f.Tensors)*f.TensorBytes {
		return 0, fmt.Errorf("%d tensors with %d bytes", a.Tensors, a.Bytes)
	}
	return time.Duration(a.Seconds * 1e9), nil
}
