//go:build linux

// Command bench measures requests to Triton's server beside the server's client for Python: a model returns 16 MiB of
// float32 that it gets. All ways take turns, in an order that changes. Each answer is compared with what was sent, outside
// of the time. The server is the one that make .venv-triton/ready installs.
//
//	go run ./internal/bench -out ../../benchmarks/results/triton-linux-x86_64-2cpu.json
//
// "From the program" means that the elements lie in memory of the program, and are copied to shared memory; "in place" that
// they lie there already: where Client.Empty made the tensor, or where a program in Python has written them before. The
// client "bare" is no client: it sends bytes that were written before. What it takes is the part that no client can change. Requests with
// one element, "4 bytes", show what a client takes for itself.
package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/strictjson"
	"github.com/dlx-go/dlx/interop/triton"
	"github.com/dlx-go/dlx/interop/triton/internal/realserver"
)

//go:embed peer.py
var peerProgram string

// result is the file that the program writes.
type result struct {
	Schema   string            `json:"schema"`
	Machine  map[string]any    `json:"machine"`
	Versions map[string]string `json:"versions"`
	Bytes    int64             `json:"bytes"` // of the input, and of the output
	Rounds   int               `json:"rounds"`
	Cases    []*way            `json:"cases"`
	// Ratios are medians of ours divided by those of the client for Python.
	Ratios map[string]float64 `json:"ratios"`
}

// way is one way to send a request.
type way struct {
	Client  string    `json:"client"` // "dlx", "tritonclient" or "bare"
	Way     string    `json:"way"`
	Seconds []float64 `json:"seconds"`
	Median  float64   `json:"median_seconds"`
	Fastest float64   `json:"fastest_seconds"`

	send func() (time.Duration, error)
}

func main() {
	log.SetFlags(0)
	out := flag.String("out", "", "the file to write; empty: none")
	rounds := flag.Int("rounds", 41, "how many requests each way sends")
	size := flag.Int64("bytes", 16<<20, "bytes of the input")
	root := flag.String("root", "../..", "the folder of the module dlx")
	flag.Parse()
	if *rounds < 1 || *size < 4 {
		log.Fatal("-rounds and -bytes must be positive")
	}
	r, err := measure(*root, *rounds, *size/4)
	if err != nil {
		log.Fatal(err)
	}
	for _, w := range r.Cases {
		fmt.Printf("%-13s %-36s median %6.2f ms, fastest %6.2f ms\n", w.Client, w.Way, w.Median*1000, w.Fastest*1000)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Ratios)) {
		fmt.Printf("%s: %.2f\n", name, r.Ratios[name])
	}
	if *out != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err == nil {
			err = os.WriteFile(*out, append(text, '\n'), 0o644)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}

func measure(root string, rounds int, count int64) (_ *result, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	python, err := realserver.Python(root)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "dlx-triton")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	server, err := realserver.New(python, folder, realserver.Identity("FP32"))
	if err == nil {
		err = server.Run(ctx)
	}
	if err != nil {
		return nil, err
	}
	defer server.Stop()

	r := &result{Schema: "dlx-triton/1", Machine: machine(), Bytes: 4 * count, Rounds: rounds, Ratios: make(map[string]float64)}
	if r.Versions, err = versions(ctx, python); err != nil {
		return nil, err
	}
	const inPlace = "shared memory, in place"
	for _, of := range []struct {
		count  int64
		suffix string
		names  []string
	}{{count, "", []string{"shared memory, from the program", inPlace, "message"}}, {1, ", 4 bytes", []string{inPlace}}} {
		o, err := newOurs(ctx, server, of.count)
		if err != nil {
			return nil, err
		}
		defer o.close()
		p, err := newPeer(python, server, of.count)
		if err != nil {
			return nil, err
		}
		defer p.close()
		b, err := newBare(ctx, server, of.count)
		if err != nil {
			return nil, err
		}
		defer b.close()
		for _, protocol := range []string{"grpc", "http"} {
			for _, name := range of.names {
				full := name + ", " + protocol
				r.Cases = append(r.Cases,
					&way{Client: "dlx", Way: full + of.suffix, send: func() (time.Duration, error) { return o.send(ctx, protocol, name) }},
					&way{Client: "tritonclient", Way: full + of.suffix, send: func() (time.Duration, error) { return p.send(full) }})
			}
		}
		r.Cases = append(r.Cases, &way{Client: "bare", Way: inPlace + ", http" + of.suffix, send: func() (time.Duration, error) { return o.sendBare(b) }})
	}
	order := rand.New(rand.NewPCG(1, 2))
	for round := range rounds + 2 {
		for _, i := range order.Perm(len(r.Cases)) { // any way may follow any other: what ran before leaves its traces in caches
			w := r.Cases[i]
			took, err := w.send()
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", w.Client, w.Way, err)
			}
			if round >= 2 { // the first ones open memory and connections
				w.Seconds = append(w.Seconds, took.Seconds())
			}
		}
	}
	medians := make(map[string]float64)
	for _, w := range r.Cases {
		sorted := slices.Sorted(slices.Values(w.Seconds))
		w.Median, w.Fastest = sorted[len(sorted)/2], sorted[0]
		medians[w.Client+w.Way] = w.Median
	}
	for _, w := range r.Cases {
		switch w.Client {
		case "dlx":
			r.Ratios[w.Way] = w.Median / medians["tritonclient"+w.Way]
		case "bare":
			r.Ratios[w.Way+", bare"] = w.Median / medians["tritonclient"+w.Way]
		}
	}
	for _, protocol := range []string{"grpc", "http"} {
		r.Ratios["shared memory, ours in place and theirs from the program, "+protocol] = medians["dlxshared memory, in place, "+protocol] / medians["tritonclientshared memory, from the program, "+protocol]
	}
	return r, nil
}

// ours sends requests by package triton.
type ours struct {
	shared, raw map[string]*triton.Client // by protocol
	place       map[string]*core.Tensor   // in shared memory
	program     *core.Tensor              // in memory of the program
	data        []float32
}

func newOurs(ctx context.Context, s *realserver.Server, count int64) (*ours, error) {
	o := &ours{shared: make(map[string]*triton.Client), raw: make(map[string]*triton.Client), place: make(map[string]*core.Tensor), data: make([]float32, count)}
	for i := range o.data {
		o.data[i] = float32(i)
	}
	var err error
	if o.program, err = core.FromSlice(o.data); err != nil {
		return nil, err
	}
	for _, of := range []struct {
		clients map[string]*triton.Client
		options triton.Options
	}{{o.shared, triton.Options{}}, {o.raw, triton.Options{RawOnly: true}}} {
		if of.clients["grpc"], err = triton.Dial(s.GRPC, of.options); err != nil {
			return nil, err
		}
		if of.clients["http"], err = triton.DialHTTP(s.HTTP, of.options); err != nil {
			return nil, err
		}
	}
	for protocol, c := range o.shared {
		if o.place[protocol], err = c.Empty(ctx, core.TypeFloat32, []int64{count}); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *ours) close() {
	for protocol := range o.shared {
		o.place[protocol].Close()
		if err := o.shared[protocol].Close(); err != nil {
			log.Print(err)
		}
		if err := o.raw[protocol].Close(); err != nil {
			log.Print(err)
		}
	}
	o.program.Close()
}

// send sends one request and checks the answer.
func (o *ours) send(ctx context.Context, protocol, name string) (time.Duration, error) {
	o.data[0]++ // so that an old answer is wrong
	client, in := o.shared[protocol], o.program
	switch name {
	case "message":
		client = o.raw[protocol]
	case "shared memory, in place":
		in = o.place[protocol]
		s, err := core.Mutable[float32](in)
		if err != nil {
			return 0, err
		}
		copy(s, o.data)
	}
	start := time.Now()
	result, err := client.Infer(ctx, "identity_fp32", map[string]*core.Tensor{"IN": in}, triton.InferOptions{})
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	defer result.Close()
	got, err := core.Values[float32](result.Outputs["OUT"])
	if err == nil && !slices.Equal(got, o.data) {
		err = fmt.Errorf("other elements arrived: %v", result.Reports)
	}
	return took, err
}

// sendBare is send, without a client.
func (o *ours) sendBare(b *bare) (time.Duration, error) {
	o.data[0]++
	copy(b.elements(0), o.data)
	took, err := b.send()
	if err == nil && !slices.Equal(b.elements(1), o.data) {
		err = errors.New("other elements arrived")
	}
	return took, err
}

// peer is the process of the client for Python.
type peer struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

func newPeer(python string, s *realserver.Server, count int64) (*peer, error) {
	p := &peer{command: exec.Command(python, "-c", peerProgram, s.GRPC, strings.TrimPrefix(s.HTTP, "http://"), "identity_fp32", strconv.FormatInt(count, 10))}
	p.command.Stderr = os.Stderr
	var err error
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
		p.close()
		return nil, fmt.Errorf("the client for Python: %q, %w", line, err)
	}
	return p, nil
}

func (p *peer) send(way string) (time.Duration, error) {
	if _, err := fmt.Fprintln(p.in, way); err != nil {
		return 0, err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
	if err != nil {
		return 0, fmt.Errorf("the client for Python: %s", strings.TrimSpace(line))
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

func (p *peer) close() {
	_ = p.in.Close()
	if err := p.command.Wait(); err != nil {
		log.Print("the client for Python: ", err)
	}
}

// versions returns those of what was measured.
func versions(ctx context.Context, python string) (map[string]string, error) {
	all := map[string]string{"go": runtime.Version()}
	text, err := exec.CommandContext(ctx, python, "-c", `
import importlib.metadata, json, platform
names = ("nvidia-pytriton", "tritonclient", "numpy", "grpcio", "geventhttpclient")
print(json.dumps({"python": platform.python_version()} | {n: importlib.metadata.version(n) for n in names}))`).Output()
	if err != nil {
		return nil, err
	}
	return all, strictjson.Unmarshal(text, &all)
}

// machine describes this machine, as far as /proc tells.
func machine() map[string]any {
	m := map[string]any{"date": time.Now().UTC().Format(time.RFC3339), "cpus": runtime.NumCPU()}
	for name, path := range map[string]string{"kernel": "/proc/sys/kernel/osrelease", "load": "/proc/loadavg"} {
		if text, err := os.ReadFile(filepath.Clean(path)); err == nil {
			m[name] = strings.TrimSpace(string(text))
		}
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m["cpu"] = strings.TrimSpace(value)
				break
			}
		}
	}
	return m
}
