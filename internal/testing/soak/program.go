package soak

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Source puts the lines that the threads of a program wrote to a folder together, as
// a program in Go.
func Source(folder string, devices []string, seed uint64) (string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		return "", err
	}
	parts := make(map[int]string)
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		var i int
		if _, err := fmt.Sscan(filepath.Base(f), &i); err != nil {
			return "", err
		}
		parts[i] = string(text)
		all.Write(text)
	}
	var b strings.Builder
	b.WriteString(head)
	fmt.Fprintf(&b, "// Drawn from seed %d.\nfunc main() {\n\tctx := context.Background()\n", seed)
	for i, name := range devices {
		fmt.Fprintf(&b, "\td%d := open(%q)\n\t_ = d%d\n", i, name, i)
	}
	if strings.Contains(all.String(), "page[") {
		fmt.Fprintf(&b, "\tpage := parts.Page(%d)\n", pageBytes)
	}
	if strings.Contains(all.String(), "queue,") {
		b.WriteString("\tqueue := stream.NewQueue(nil)\n")
	}
	b.WriteString(declarations(all.String(), len(devices)))
	block := func(text string) {
		for line := range strings.Lines(text) {
			b.WriteString("\t\t" + line)
		}
	}
	b.WriteString("\tfunc() {\n\t\tvar err error\n\t\t_ = err\n")
	block(parts[-1])
	b.WriteString("\t}()\n")
	several := len(parts[1])+len(parts[2])+len(parts[3]) > 0
	if several {
		b.WriteString("\tvar threads sync.WaitGroup\n")
	}
	for i := range mostThreads {
		if len(parts[i]) == 0 {
			continue
		}
		open, end := "\tfunc() {\n", "\t}()\n"
		if several {
			open, end = "\tthreads.Go(func() {\n", "\t})\n"
		}
		b.WriteString(open + "\t\tvar err error\n\t\t_ = err\n")
		block(parts[i])
		b.WriteString(end)
	}
	if several {
		b.WriteString("\tthreads.Wait()\n")
	}
	b.WriteString("\tfunc() {\n")
	block(parts[-2])
	b.WriteString("\t}()\n}\n")
	b.WriteString(tail)
	return b.String(), nil
}

// names are the variables of a program.
var names = regexp.MustCompile(`\b(t|s|e|x|b|d|g|l|report)(\d+)\b`)

var nameTypes = map[string]string{
	"t": "*core.Tensor", "s": "core.Stream", "e": "core.Event", "x": "core.ExternalMemory",
	"b": "[]byte", "d": "core.Device", "report": "exchange.Report",
	"g": "= make(chan *core.Tensor, 1)", "l": "*stream.SharedSemaphore",
}

// declarations declares the variables that lines use, but for the first devices.
func declarations(text string, devices int) string {
	found := make(map[string]string)
	for _, m := range names.FindAllStringSubmatch(text, -1) {
		var n int
		_, _ = fmt.Sscan(m[2], &n)
		if m[1] != "d" || n >= devices {
			found[m[0]] = nameTypes[m[1]]
		}
	}
	var b strings.Builder
	sorted := make([]string, 0, len(found))
	for name := range found {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	for _, name := range sorted {
		fmt.Fprintf(&b, "\tvar %s %s\n\t_ = %s\n", name, found[name], name)
	}
	return b.String()
}

const head = `// A program over dlx that goes wrong. Run it in the root of the module:
//
//	scripts/software-drivers.sh go run -tags vulkan,opencl,gl,cuda FILE
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
	"github.com/dlx-go/dlx/stream"
)

`

const tail = `
func open(name string) core.Device {
	id, err := core.ParseDevice(name)
	if err == nil {
		var d core.Device
		if d, err = all.New().Open(context.Background(), id); err == nil {
			return d
		}
	}
	fmt.Println(err)
	os.Exit(1)
	return nil
}

// check prints an error, and goes on: some are expected.
func check(err error) {
	if err != nil {
		_, _, line, _ := runtime.Caller(1)
		fmt.Printf("line %d: %v\n", line, err)
	}
}

// What this program may not need of its imports.
var (
	_ = dlpack.Flush
	_ = errors.New
	_ = exchange.To
	_ = parts.Pattern
	_ = stream.NewQueue
	_ sync.WaitGroup
	_ time.Duration
)
`
