//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/dlx-go/dlx/internal/atomicfile"
)

// settings are the flags.
type settings struct {
	smallFile     size
	smallTensor   size
	largeTensor   size
	largeCount    int
	headerTensors int
	rounds        int
	folder        string
	out           string
	python        string
	devices       string
	dropAll       bool
}

func main() {
	s := settings{smallFile: 256 << 20, smallTensor: 1 << 10, largeTensor: 1 << 30}
	flag.Var(&s.smallFile, "small-file", "`bytes` of the file of small tensors")
	flag.Var(&s.smallTensor, "small-tensor", "`bytes` of each of them")
	flag.Var(&s.largeTensor, "large-tensor", "`bytes` of each large tensor")
	flag.IntVar(&s.largeCount, "large-count", 1, "`number` of large tensors")
	flag.IntVar(&s.headerTensors, "header-tensors", 600_000, "`number` of tensors of the file whose header is read; 0 leaves it out")
	flag.IntVar(&s.rounds, "rounds", 7, "`number` of rounds")
	flag.StringVar(&s.folder, "folder", "", "`folder` for the files, on the storage to measure; a temporary one by default")
	flag.StringVar(&s.out, "out", "", "write the results as JSON to this `file`")
	flag.StringVar(&s.python, "python", "", "the Python `program` of .venv-loaders; without it, only dlx and raw reading are measured")
	flag.StringVar(&s.devices, "to", "cpu", "`devices` to load onto, separated by commas")
	flag.BoolVar(&s.dropAll, "drop-caches", false, "as root: drop the whole page cache of the machine before a cold run (/proc/sys/vm/drop_caches)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "loaders:", err)
		os.Exit(1)
	}
}

// run measures everything, prints a table and writes the file.
func run(ctx context.Context, s settings) (err error) {
	folder, err := os.MkdirTemp(s.folder, "dlx-loaders-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	r := &report{Schema: "dlx-loaders/1", Machine: machine(folder), Versions: map[string]string{}}
	b := &bench{settings: s, report: r}
	defer b.close()
	if err := b.prepare(ctx, folder); err != nil {
		return err
	}
	if err := b.headers(ctx, folder); err != nil && ctx.Err() == nil {
		return err
	}
	for round := range s.rounds {
		if err := b.round(ctx, round); err != nil {
			if ctx.Err() == nil {
				return err
			}
			break // keep what was measured
		}
	}
	r.summarize()
	r.print(os.Stdout)
	if s.out == "" {
		return nil
	}
	return r.write(s.out)
}

// write writes the file as a whole, also of a measurement that was stopped.
func (r *report) write(path string) error {
	return atomicfile.Write(context.Background(), path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	})
}

// size is a flag for a number of bytes.
type size int64

// String returns the number with the largest unit that divides it.
func (s *size) String() string {
	for _, u := range units {
		if n := int64(*s); n >= u.bytes && n%u.bytes == 0 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.name)
		}
	}
	return fmt.Sprint(int64(*s))
}

// Set parses a number of bytes, such as 64MiB.
func (s *size) Set(text string) error {
	factor := int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			text, factor = rest, u.bytes
			break
		}
	}
	var n int64
	if _, err := fmt.Sscanf(text+"\n", "%d\n", &n); err != nil || n <= 0 || n > 1<<50/factor {
		return errors.New("must be a number of bytes, such as 4096, 64KiB, 256MiB or 1GiB")
	}
	*s = size(n * factor)
	return nil
}

var units = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}
