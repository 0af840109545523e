//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/dlx-go/dlx/tensorfile"
)

// headerResult compares opening a file of very many tensors, whose header is in the page cache, with the reference
// implementation of the format.
type headerResult struct {
	Tensors     int       `json:"tensors"`
	Bytes       int64     `json:"bytes"`                       // of the file, nearly all of which are the header
	Seconds     []float64 `json:"seconds"`                     // tensorfile.Open, by round
	Reference   []float64 `json:"reference_seconds,omitempty"` // safetensors.safe_open
	OfReference float64   `json:"of_reference,omitempty"`      // its time divided by that of dlx: the median of the rounds; 3 is the aim
	Met         bool      `json:"met"`
}

// headers measures, by turns, how long it takes to open the file.
func (b *bench) headers(ctx context.Context, folder string) error {
	if b.headerTensors == 0 {
		return nil
	}
	path := filepath.Join(folder, "header.safetensors")
	if err := write(ctx, path, 8, b.headerTensors); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	r := &headerResult{Tensors: b.headerTensors, Bytes: info.Size()}
	b.report.Header = r
	for range b.rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		runtime.GC()
		took, err := openDLX(path, b.headerTensors)
		if err != nil {
			return err
		}
		r.Seconds = append(r.Seconds, took.Seconds())
		if b.peers == nil {
			continue
		}
		if took, err = b.peers.open(path, b.headerTensors); err != nil {
			return err
		}
		r.Reference = append(r.Reference, took.Seconds())
	}
	r.summarize()
	return os.Remove(path)
}

// openDLX opens a file, and closes it again.
func openDLX(path string, tensors int) (time.Duration, error) {
	start := time.Now()
	f, err := tensorfile.Open(path, tensorfile.OpenOptions{})
	if err != nil {
		return 0, err
	}
	took := time.Since(start)
	defer f.Close()
	if n := len(f.Tensors()); n != tensors {
		return 0, fmt.Errorf("%d tensors", n)
	}
	return took, nil
}

func (r *headerResult) summarize() {
	if len(r.Reference) == 0 {
		return
	}
	ratios := make([]float64, min(len(r.Seconds), len(r.Reference)))
	for i := range ratios {
		ratios[i] = r.Reference[i] / r.Seconds[i]
	}
	r.OfReference = median(ratios)
	r.Met = r.OfReference >= 3
}

// print prints the result as a line.
func (r *headerResult) print(w io.Writer) {
	if r == nil || len(r.Seconds) == 0 {
		return
	}
	fmt.Fprintf(w, "header of %d tensors:\tdlx opens it in %.3f s", r.Tensors, median(r.Seconds))
	if len(r.Reference) > 0 {
		fmt.Fprintf(w, "\t%.2f times as fast as safetensors.safe_open (%.3f s)", r.OfReference, median(r.Reference))
	}
	fmt.Fprintln(w)
}
