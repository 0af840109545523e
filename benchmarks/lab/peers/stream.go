package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/dlx-go/dlx/core"
)

//go:embed native/stream.c
var streamSource string

// streamFlags keep the compiler from making a call of memcpy of the loop that copies.
var streamFlags = []string{"-std=c11", "-O3", "-fno-tree-loop-distribute-patterns", "-pthread"}

// loop is a loop of stream.c.
type loop struct{ kernel, kind string }

// loops lists those that are measured. Only copies have a counterpart in dlx, which does no arithmetic.
var loops = []loop{
	{"copy", "memcpy"}, {"copy", "loop"}, {"copy", "nt"}, {"scale", "loop"}, {"scale", "nt"},
	{"add", "loop"}, {"add", "nt"}, {"triad", "loop"}, {"triad", "nt"},
}

var kindNotes = map[string]string{"loop": "a loop of C", "nt": "stores that pass by the caches", "memcpy": "the C library's memcpy"}

// arrays is how many arrays a loop reads and writes, each of which STREAM's own figure counts.
func (l loop) arrays() int {
	if l.kernel == "add" || l.kernel == "triad" {
		return 3
	}
	return 2
}

// runStream measures the loops of C beside host_to_host, which is a copy of dlx within the host.
func runStream(ctx context.Context, b *bench) []Row {
	base := Row{Peer: "loops as STREAM's"}
	program, remove, err := compileStream(ctx)
	if err != nil {
		base.Case = "copy, scale, add, triad"
		base.refuse(err)
		return []Row{base}
	}
	defer remove()
	var rows []Row
	for _, size := range b.sizes() {
		got, err := b.streamAt(ctx, program, size)
		if err != nil {
			row := base
			row.Case, row.Size = "copy, scale, add, triad", size
			row.refuse(err)
			got = []Row{row}
		}
		rows = append(rows, got...)
	}
	return rows
}

// compileStream returns the path of the program, and a function that removes it.
func compileStream(ctx context.Context) (string, func(), error) {
	compiler, err := findCompiler()
	if err != nil {
		return "", nil, err
	}
	folder, err := os.MkdirTemp("", "dlx-peers-")
	if err != nil {
		return "", nil, err
	}
	remove := func() { _ = os.RemoveAll(folder) }
	source, program := filepath.Join(folder, "stream.c"), filepath.Join(folder, "stream")
	if err = os.WriteFile(source, []byte(streamSource), 0o600); err == nil {
		_, err = output(ctx, nil, compiler, append(streamFlags, source, "-o", program)...)
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	return program, remove, nil
}

func findCompiler() (string, error) {
	for _, name := range []string{"cc", "gcc", "clang"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", notInstalled("there is no C compiler: install gcc or clang")
}

func (b *bench) streamAt(ctx context.Context, program string, size int64) ([]Row, error) {
	c, err := start(ctx, program)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if _, err := c.line("prepare %d", size); err != nil {
		return nil, err
	}
	own, err := b.newCopier(ctx, core.CPU, host, host, size)
	if err != nil {
		return nil, err
	}
	defer own.close()

	var all []*series
	copies := map[int]*series{}
	for _, threads := range threadCounts() {
		copies[threads] = own.series(ctx, "host_to_host", threads)
		all = append(all, copies[threads])
	}
	var rows []Row
	var measured []*series
	for _, l := range loops {
		for _, threads := range threadCounts() {
			s := &series{name: l.kernel + " " + l.kind, sample: func(n int) (time.Duration, error) {
				a, err := c.line("run %s %s %d %d", l.kernel, l.kind, threads, n)
				return a.Time, err
			}}
			all, measured = append(all, s), append(measured, s)
			row := Row{
				Peer: "loops as STREAM's", Case: l.kernel, Size: size, Threads: threads,
				Version: "stream.c of dlx, " + c.greeting.Version,
				Command: fmt.Sprintf("cc %s stream.c && ./a.out: run %s %s %d", strings.Join(streamFlags, " "), l.kernel, l.kind, threads),
				Notes:   fmt.Sprintf("%s; STREAM's own figure is %d times as high", kindNotes[l.kind], l.arrays()),
			}
			if l.kind == "memcpy" {
				row.Peer, row.Version, row.Notes = "memcpy", libc(), ""
			}
			rows = append(rows, row)
		}
	}
	if err := byTurns(ctx, b.rounds, b.length, all); err != nil {
		return nil, err
	}
	for i, s := range measured {
		var beside *series
		if rows[i].Case == "copy" {
			beside = copies[rows[i].Threads]
			rows[i].DLX = "host_to_host"
		}
		rows[i].finish(s, beside, size)
	}
	return rows, nil
}

// finish fills the row of two series that were measured by turns, in GB/s. own may be nil.
func (r *Row) finish(peer, own *series, bytes int64) {
	if peer.err != nil {
		r.refuse(peer.err)
		r.DLX = ""
		return
	}
	var dlx []float64
	if own != nil {
		if own.err != nil {
			r.Notes = strings.TrimPrefix(r.Notes+"; dlx was not measured: "+own.err.Error(), "; ")
			r.DLX = ""
		} else {
			dlx = own.perSecond(bytes)
		}
	}
	r.fill(GBPerSecond, peer.perSecond(bytes), dlx, true)
}
