package remote

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// The model of a service of many processes: what connections, offers and elements cost, measured on one machine, and what
// follows for more machines. docs/scale.md is its text.
const (
	modelResults = "../benchmarks/results/remote-scale-linux-x86_64-2cpu.json"
	modelPage    = "../docs/scale.md"
	// modelVariable makes TestMeasureModel measure at length and write both files, with the value "measure", or
	// TestModelPage write the page from the results that are there, with the value "write".
	modelVariable = "DLX_REMOTE_MODEL"
)

// modelFigures are what TestMeasureModel measures. Pairs are the side that dials, or reads, and the one that listens, or offers.
type modelFigures struct {
	Date       time.Time `json:"date"`
	Processors int       `json:"processors"`
	UCX        string    `json:"ucx"`
	Transports string    `json:"transports"`
	Load       [2]string `json:"load"` // before and after
	Runs       int       `json:"runs"` // of each fleet, whose median counts

	Process      [2]int64       `json:"process_bytes"`                 // of memory with one connection
	Connections  int            `json:"connections"`                   // by which the next three were divided
	Memory       [2]int64       `json:"bytes_per_connection"`          // resident
	Descriptors  [2]float64     `json:"descriptors_per_connection"`    //
	Handshake    [2]float64     `json:"processor_us_per_connection"`   // with a token
	Certificates float64        `json:"processor_us_by_certificates"`  // both sides
	Tokens       float64        `json:"processor_us_by_token"`         // both sides, measured in the same way
	Exchanged    [2]int64       `json:"bytes_of_handshake"`            // that the side that dials sends, and gets
	RoundTrips   int            `json:"round_trips"`                   // with that of TCP
	Ping         float64        `json:"processor_us_per_sign_of_life"` // both sides
	OfferMemory  float64        `json:"bytes_per_offer"`               // of the heap
	OfferTime    float64        `json:"processor_us_per_offer"`        //
	Descriptor   int            `json:"descriptor_bytes"`              // of a tensor with two axes
	Entry        int            `json:"list_entry_bytes"`              // with a name of modelName bytes
	ListTime     float64        `json:"processor_us_per_list_entry"`   // both sides
	Request      [2]float64     `json:"processor_us_per_request"`      // for 8 bytes
	Element      [2]float64     `json:"processor_ns_per_kib"`          // of the elements of large tensors
	Many         manyFigures    `json:"many"`
	Fleets       []fleetFigures `json:"fleets"`
}

// manyFigures are measured with many connections at the same time.
type manyFigures struct {
	Connections int        `json:"connections"`
	Memory      [2]int64   `json:"bytes"` // of all of them
	Descriptors [2]int     `json:"descriptors"`
	Processor   [2]float64 `json:"processor_ms"` // to make them
}

// fleetFigures are measured when processes of one machine get the same tensor.
type fleetFigures struct {
	Peers     int     `json:"peers"`
	Width     int     `json:"width"` // 0 if each one fetches it from the source
	Bytes     int64   `json:"bytes"` // of the tensor
	Sent      int64   `json:"source_sent"`
	Source    int64   `json:"source_connections"`
	Peer      int64   `json:"peer_connections"` // the most of one peer
	Processor float64 `json:"processor_ms"`     // of all processes
	Wall      float64 `json:"wall_ms"`
}

const modelName = 32 // bytes of a name in a list

// copies returns how many times the source sends the tensor.
func copies(n, width int) int64 {
	if width == 0 || width > n {
		return int64(n)
	}
	return int64(width)
}

// peerConnections returns the most connections of a peer: to the one above it, and from those below it.
func peerConnections(n, width int) int64 {
	if width == 0 {
		return 1
	}
	return 1 + min(int64(width), max(0, int64(n-width)))
}

// processor returns the processor time, in milliseconds, in which n peers get a tensor on connections of their own.
func (f *modelFigures) processor(n int, bytes int64) float64 {
	return float64(n) * (f.elements(bytes, 0) + f.elements(bytes, 1) + (f.Handshake[0]+f.Handshake[1])/1000)
}

// elements returns the milliseconds of processor time that elements take on one side.
func (f *modelFigures) elements(bytes int64, side int) float64 {
	return float64(bytes) / 1024 * f.Element[side] / 1e6
}

// rate returns the bytes that one process sends or receives in a second over a link: the processor or the link is the limit.
func (f *modelFigures) rate(link float64) float64 {
	return min(link, 1024/max(f.Element[0], f.Element[1])*1e9)
}

// seconds returns the time until the last of n peers has a tensor, each on a machine of its own.
func (f *modelFigures) seconds(n int, bytes int64, width int, link float64) float64 {
	shake := (f.Handshake[0] + f.Handshake[1]) / 1e6
	if width == 0 {
		return float64(n)*float64(bytes)/f.rate(link) + shake + float64(n-1)*f.Handshake[1]/1e6/float64(f.Processors)
	}
	return float64(fanoutCost(n, bytes, min(width, n)))/f.rate(link) + shake
}

// off returns how far the model is from what was measured, as text.
func off(model, measured float64) string {
	return fmt.Sprintf("%+.0f %%", 100*(model/measured-1))
}

// sized returns bytes as text.
func sized(bytes float64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if bytes < 1000 {
			return fmt.Sprintf("%.3g %s", bytes, unit)
		}
		bytes /= 1024
	}
	return fmt.Sprintf("%.3g TiB", bytes)
}

// spell returns seconds as text.
func spell(seconds float64) string {
	switch {
	case seconds < 0.0995:
		return fmt.Sprintf("%.2g ms", seconds*1000)
	case seconds < 1000:
		return fmt.Sprintf("%.3g s", seconds)
	}
	return fmt.Sprintf("%.3g h", seconds/3600)
}

// shape names a way to many peers.
func shape(width int) string { return []string{"each from the source", "chain", "tree"}[width] }

// page is docs/scale.md.
func (f *modelFigures) page() string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	const link, keepAlive = 1.25e9, 10.0
	say(`# A service of 1 to 10,000 machines

<!-- written by remote/model_test.go -->

This page computes what package [remote](remote.md) costs when many processes use Offer, Fetch and Relay. A program measures
the costs of one connection, one offer and one byte, and computes the rest. %s: %d processors, UCX %s over %s,
load %s before and %s after. Times are processor times, which depend less on the load than others do. In the
table of processes that get one tensor, they are the medians of %d runs.
`+"`make bench-scale`"+` measures again, and writes this page and [the results](../benchmarks/results/%s).

## What was measured

| cost | side that dials or reads | side that listens or offers |
|---|---:|---:|
`, f.Date.Format("2006-01-02"), f.Processors, f.UCX, f.Transports, f.Load[0], f.Load[1], f.Runs, modelResults[strings.LastIndexByte(modelResults, '/')+1:])
	say("| memory of the process with one connection | %s | %s |\n", sized(float64(f.Process[0])), sized(float64(f.Process[1])))
	say("| memory of a further connection, one of %d | %s | %s |\n", f.Connections, sized(float64(f.Memory[0])), sized(float64(f.Memory[1])))
	say("| descriptors of a connection | %.3g | %.3g |\n", f.Descriptors[0], f.Descriptors[1])
	say("| a connection with a token: processor time | %.0f µs | %.0f µs |\n", f.Handshake[0], f.Handshake[1])
	say("| its key exchange: bytes sent | %d | %d |\n", f.Exchanged[0], f.Exchanged[1])
	say("| a request for 8 bytes: processor time | %.0f µs | %.0f µs |\n", f.Request[0], f.Request[1])
	say("| 1 MiB of elements of a large tensor: processor time | %.0f µs | %.0f µs |\n", f.Element[0]*1024/1000, f.Element[1]*1024/1000)
	say(`
Of both sides together: a key exchange with certificates takes %.2f times the processor time of one with a token. A connection
takes %d round trips. A sign of life takes %.0f µs. An entry of a list takes %.1f µs, and has %d bytes with a name of %d bytes.
An offer takes %.0f bytes of memory, its timer for the lease included, and %.1f µs; its descriptor has %d bytes.

## The model beside measurements

Connections were made one after the other between two processes. The model has the costs of %d connections.

| %d connections | model | measured | error |
|---|---:|---:|---:|
`, f.Certificates/f.Tokens, f.RoundTrips, f.Ping, f.ListTime, f.Entry, modelName, f.OfferMemory, f.OfferTime, f.Descriptor, f.Connections, f.Many.Connections)
	many, worst := float64(f.Many.Connections), 0.0
	for side := range 2 {
		for model, measured := range map[float64]float64{
			many * float64(f.Memory[side]): float64(f.Many.Memory[side]), many * f.Handshake[side] / 1000: f.Many.Processor[side],
		} {
			worst = max(worst, math.Abs(model/measured-1))
		}
	}
	for side, name := range []string{"side that dials", "side that listens"} {
		m, d, p := many*float64(f.Memory[side]), many*f.Descriptors[side], many*f.Handshake[side]/1000
		say("| memory, %s | %s | %s | %s |\n", name, sized(m), sized(float64(f.Many.Memory[side])), off(m, float64(f.Many.Memory[side])))
		say("| descriptors, %s | %.0f | %d | %s |\n", name, d, f.Many.Descriptors[side], off(d, float64(f.Many.Descriptors[side])))
		say("| processor time, %s | %.0f ms | %.0f ms | %s |\n", name, p, f.Many.Processor[side], off(p, f.Many.Processor[side]))
	}
	say(`
Processes of this machine got a tensor of %s. Connections and bytes that the source has sent are as the model says in all rows: the
program checks them. The processor time is that of all processes.

| processes | way | sent by the source | connections of the source, of a peer | model | measured | error |
|---:|---|---:|---:|---:|---:|---:|
`, sized(float64(f.Fleets[0].Bytes)))
	for _, r := range f.Fleets {
		p := f.processor(r.Peers, r.Bytes)
		worst = max(worst, math.Abs(p/r.Processor-1))
		say("| %d | %s | %s | %d, %d | %.0f ms | %.0f ms | %s |\n", r.Peers, shape(r.Width), sized(float64(r.Sent)), r.Source, r.Peer, p, r.Processor, off(p, r.Processor))
	}
	say(`
The largest error of both tables is %.0f %%. The model leaves out that the processes compete for the processors and their caches, and that
a portion of a relay is a request of its own. Everything below has at least this error. What one machine cannot show, such as
switches that many links share, is not in the model.

## One source and n machines

Each machine has a link of 10 Gbit/s, of which one connection uses %.3g GB/s: as much as the link carries, or one processor sends or
receives. The source has one connection to each machine that fetches from it.

| machines | memory of the source | descriptors | key exchanges at the source | signs of life at the source |
|---:|---:|---:|---:|---:|
`, 100*worst, f.rate(link)/1e9)
	counts := []int{1, 10, 100, 1000, 10000}
	for _, n := range counts {
		alive := float64(n) * 4 / keepAlive * f.Ping / 1e6
		say("| %d | %s | %.0f | %s | %.2g %% of a processor |\n", n, sized(float64(f.Process[1])+float64(n-1)*float64(f.Memory[1])), float64(n)*f.Descriptors[1], spell(float64(n)*f.Handshake[1]/1e6), 100*alive)
	}
	atOnce := handshakeWithin.Seconds() * float64(f.Processors) / (f.Handshake[1] / 1e6)
	say(`
A sign of life is due every %.2g s: a quarter of KeepAlive, which is %.0f s by default. All machines may connect at once as long as the
key exchanges end within %v, here for %.0f machines; later ones fail, and dial again. A program that fetches often keeps its connection: `+"`remote.Fetch`"+` makes
one for each call, which takes %.0f times the processor time of the request.

The time until the last machine has a tensor:

| machines | 1 MiB: source, chain, tree | 1 GiB: source, chain, tree | 16 GiB: source, chain, tree |
|---:|---|---|---|
`, keepAlive/4, keepAlive, handshakeWithin, math.Floor(atOnce/1000)*1000, (f.Handshake[0]+f.Handshake[1])/(f.Request[0]+f.Request[1]))
	for _, n := range counts {
		say("| %d |", n)
		for _, bytes := range []int64{1 << 20, 1 << 30, 16 << 30} {
			for width := range 3 {
				t := spell(f.seconds(n, bytes, width, link))
				if width > 0 && width == fanoutWidth(n, bytes) {
					t = "**" + t + "**"
				}
				say("%s %s", []string{"", ",", ","}[width], t)
			}
			say(" |")
		}
		say("\n")
	}
	say(`
Bold is what Width 0 of Fanout chooses. A chain has as many levels as machines: of 10,000, a tree has %d. The way up of the last
machine of a chain of 10,000 has 10,000 descriptors, %s. A machine that falls silent costs those below it up
to one KeepAlive; the end of a process is noticed at once.

## Everyone with everyone

Each of n processes fetches from each other one, and keeps the connections: 2 (n − 1) for each process.

| processes | connections | memory | descriptors | key exchanges | signs of life |
|---:|---:|---:|---:|---:|---:|
`, fanoutLevels(10000, 2), sized(10000*float64(f.Descriptor)))
	for _, n := range counts[1:] {
		k := float64(n - 1)
		say("| %d | %.0f | %s | %.0f | %s | %.2g %% of a processor |\n", n, 2*k, sized(float64(f.Process[1])+k*float64(f.Memory[0]+f.Memory[1])),
			k*(f.Descriptors[0]+f.Descriptors[1]), spell(k*(f.Handshake[0]+f.Handshake[1])/1e6), 100*2*k*4/keepAlive*f.Ping/1e6)
	}
	say(`
So keep connections to the processes that you use again, and let others end: a connection is made in %s of processor time of both
sides. Raise the limit of descriptors (`+"`ulimit -n`"+`) to what the table says.

## Offers, leases and lists

| offers of one process | memory | time to make them | a list of all: bytes, processor time | 10,000 machines list them |
|---:|---:|---:|---:|---:|
`, spell((f.Handshake[0]+f.Handshake[1])/1e6))
	for _, k := range []float64{100, 10000, 1000000} {
		entries, t := k*float64(f.Entry), k*f.ListTime/1e6
		say("| %.0f | %s | %s | %s, %s | %s, %s |\n", k, sized(k*f.OfferMemory), spell(k*f.OfferTime/1e6), sized(entries), spell(t), sized(entries*10000), spell(t*10000))
	}
	say(`
A lease costs nothing while it runs: a timer ends it. Offers of many tensors that everybody needs belong into one list or file that
travels by the way of the service; only what a machine needs should be listed by it.
`)
	return b.String()
}

// The page is that of the results: no number in it was typed.
func TestModelPage(t *testing.T) {
	text, err := os.ReadFile(modelResults)
	if err != nil {
		t.Fatal(err)
	}
	var f modelFigures
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	page := f.page()
	if len(page) > 8<<10 {
		t.Errorf("the page has %d bytes, and at most %d are to be read", len(page), 8<<10)
	}
	if os.Getenv(modelVariable) != "" {
		if err := os.WriteFile(modelPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(modelPage); err != nil || string(got) != page {
		t.Errorf("%s is not that of %s: write it by %s=write go test -run TestModelPage ./remote (%v)", modelPage, modelResults, modelVariable, err)
	}
	for _, r := range f.Fleets {
		r.check(t)
	}
}

// check compares what the model counts exactly.
func (r *fleetFigures) check(t *testing.T) {
	t.Helper()
	c := copies(r.Peers, r.Width)
	if r.Sent != c*r.Bytes || r.Source != c || r.Peer != peerConnections(r.Peers, r.Width) {
		t.Errorf("%d peers, %s: the source has sent %d bytes on %d connections, and a peer has %d; the model says %d, %d and %d",
			r.Peers, shape(r.Width), r.Sent, r.Source, r.Peer, c*r.Bytes, c, peerConnections(r.Peers, r.Width))
	}
}
