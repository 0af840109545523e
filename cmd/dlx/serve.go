package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/remote"
	"github.com/dlx-go/dlx/tensorfile"
)

// servedTensor is a tensor that dlx serve has offered.
type servedTensor struct {
	Tensor string     `json:"tensor"`
	DType  core.DType `json:"dtype"`
	Shape  []int64    `json:"shape"`
	Bytes  int64      `json:"bytes"`
}

// serveResult is the result of `dlx serve`.
type serveResult struct {
	Address     string         `json:"address"`
	Device      core.DeviceID  `json:"device"`
	Tensors     []servedTensor `json:"tensors"`
	Bytes       int64          `json:"bytes"` // of all tensors
	Connections int            `json:"connections"`
	Served      int64          `json:"served"`  // requests
	Refused     int64          `json:"refused"` // requests
	Sent        int64          `json:"bytes_sent"`
	Duration    time.Duration  `json:"duration_ns"`
}

func (r serveResult) writeText(w io.Writer) {
	row(w, "TENSOR", "BYTES")
	for _, t := range r.Tensors {
		row(w, fmt.Sprintf("%s %v%v", shownName(t.Tensor), t.DType, t.Shape), formatBytes(t.Bytes))
	}
	fmt.Fprintf(w, "\naddress: %s, device: %v, tensors: %d, bytes: %s\nconnections: %d, requests: %d, refused: %d, sent: %s, time: %s\n",
		r.Address, r.Device, len(r.Tensors), formatBytes(r.Bytes), r.Connections, r.Served, r.Refused, formatBytes(r.Sent), formatDuration(r.Duration))
}

// serveFlags are the flags of `dlx serve`.
type serveFlags struct {
	listen string
	device devices
	only   only
	bench  bool
	peer   peerFlags
}

func newServeCommand(a *app) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [FILE...] --listen ADDRESS",
		Short: "Offer the tensors of files to other machines",
		Long: `Offer the tensors of files to processes on other machines, which take them by dlx load
ucx://ADDRESS or by package remote, until the command is interrupted. FILE may also be an index
of several files or a folder, as for dlx inspect.

The log has the address, each peer that connects or leaves, and what that peer has taken. While
peers take tensors, it says once a second how many peers are connected, and how many requests
were served and bytes sent since the command began, for all peers together. The result is printed
at the end.

Files are mapped: their bytes are read when somebody asks for them. Do not truncate them meanwhile,
or write them anew in place: this process may end by SIGBUS while a peer takes a tensor. Rename a
new file to the old name instead. With --device, the tensors are first loaded onto that device.

With --bench, it also serves dlx bench --peer: it offers two tensors of 64 MiB, of which peers can
overwrite one, and sends back the tensors that it gets. No file is needed then.

` + peerHelp + `

The fastest transport that both machines have carries the elements, such as InfiniBand, shared
memory or TCP. This program needs UCX for that, and the build tag ucx. UCX encrypts nothing, and
over TCP whoever reaches its port can write memory of this program: let only machines that you
trust reach it (docs/remote.md, Security).`,
		Example: `  dlx serve model.safetensors --listen 10.0.0.7:7470 --token-file token      # on one machine
  dlx load ucx://10.0.0.7:7470 --to vulkan:0 --token-file token --verify     # on another one
  dlx serve testdata/digits.npz --listen 127.0.0.1:7470 --insecure --only images`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.bench {
				return nil
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		ValidArgsFunction: completeFiles,
		PreRunE:           func(*cobra.Command, []string) error { return f.check() },
		RunE: a.runE(func(cmd *cobra.Command, args []string) (result, error) {
			r, err := a.serve(cmd.Context(), args, f)
			if r == nil {
				return nil, err
			}
			return *r, err
		}),
	}
	flags := cmd.Flags()
	flags.Var((*filled)(&f.listen), "listen", "the TCP `address` at which to listen, such as 10.0.0.7:7470")
	flags.Var(&f.device, "device", "the device from which the tensors are offered (default cpu)")
	flags.StringArrayVar(&f.only.globs, "only", nil, "offer only tensors whose name matches this `glob`; may be repeated")
	flags.BoolVar(&f.bench, "bench", false, "serve dlx bench --peer")
	f.peer.addPoll(cmd)
	f.peer.add(cmd)
	cobra.CheckErr(cmd.MarkFlagRequired("listen"))
	completeFlag(cmd, "device", a.completeDevices)
	completeFlag(cmd, "only", completeTensors)
	return cmd
}

// check returns an error if the flags are wrong.
func (f *serveFlags) check() error {
	if len(f.device) == 0 {
		f.device = devices{core.CPU}
	}
	if err := f.device.one("device"); err != nil {
		return err
	}
	if err := f.only.check(); err != nil {
		return err
	}
	return f.peer.check()
}

// serve offers the tensors of files until ctx ends. The result is nil if nothing was offered.
func (a *app) serve(ctx context.Context, files []string, f serveFlags) (r *serveResult, err error) {
	if err := a.checkBuilt(f.device...); err != nil {
		return nil, err
	}
	options, err := f.peer.options(a)
	if err != nil {
		return nil, err
	}
	device, err := a.registry.Open(ctx, f.device[0])
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, device.Close()) }()
	s := &serving{app: a, device: device, only: f.only, bench: f.bench, files: make(map[string]string), conns: make(map[*remote.Conn]struct{}), r: serveResult{Device: device.ID(), Tensors: []servedTensor{}}}
	defer s.forget()
	for _, file := range files {
		if err := s.add(ctx, file); err != nil {
			return nil, err
		}
	}
	if err := s.only.unused("serve"); err != nil {
		return nil, err
	}
	if f.bench {
		if err := s.addBench(ctx); err != nil {
			return nil, err
		}
	}
	if len(s.tensors) == 0 {
		return nil, core.Errorf(core.ErrInvalid, "dlx", "serve", "the files have no tensors: there is nothing to offer")
	}
	socket, err := net.Listen("tcp", f.listen)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "dlx", "serve", "%v", err)
	}
	offered := make(chan struct{})
	offer := sync.OnceFunc(func() { close(offered) })
	if s.listener, err = remote.ListenOn(later{socket, offered}, options); err != nil {
		return nil, err
	}
	defer s.listener.Close()
	defer offer() // else Close would wait for Accept
	if err := s.offer(); err != nil {
		return nil, err
	}
	offer()
	start := time.Now()
	a.log.Info().Str("address", s.r.Address).Int("tensors", len(s.r.Tensors)).Str("bytes", formatBytes(s.r.Bytes)).Str("names", s.names()).Msg("serving until interrupted")
	err = s.accept(ctx)
	s.r.Duration = time.Since(start)
	return &s.r, err
}

// later accepts no connection before ready is closed: a peer that connects meanwhile waits, and does not find a part of a model.
type later struct {
	net.Listener
	ready <-chan struct{}
}

func (l later) Accept() (net.Conn, error) {
	<-l.ready
	return l.Listener.Accept()
}

// serving is one call of serve.
type serving struct {
	*app
	listener *remote.Listener // once all tensors are loaded
	device   core.Device
	only     only
	bench    bool

	tensors []loadedTensor    // that are not offered yet
	files   map[string]string // which have the tensors, by name
	offers  []*remote.Offer   // of all tensors
	echoed  atomic.Int64      // bytes that were sent back

	mu    sync.Mutex
	conns map[*remote.Conn]struct{} // that are open
	r     serveResult
}

// loadedTensor is a tensor that is to be offered.
type loadedTensor struct {
	tensor  *core.Tensor
	options remote.OfferOptions
}

// add adds the tensors of a file.
func (s *serving) add(ctx context.Context, file string) error {
	in, err := s.open(ctx, file, tensorfile.OpenOptions{})
	if err != nil {
		return err
	}
	defer in.Close() // tensors on the mapped memory keep it
	chosen, _, err := s.chooseTensors(file, in.File, nil)
	if err != nil {
		return err
	}
	for _, info := range chosen {
		if !s.only.match(info.Name) {
			continue
		}
		if err := s.claim(info.Name, file); err != nil {
			return err
		}
		t, err := in.Tensor(info.Name)
		if err == nil && s.device.ID() != core.CPU {
			mapped := t
			t, _, err = exchange.To(ctx, mapped, s.device, exchange.Options{Copy: exchange.Always})
			_ = mapped.Close()
		}
		if err != nil {
			return err
		}
		s.tensors = append(s.tensors, loadedTensor{t, remote.OfferOptions{Name: info.Name}})
	}
	return nil
}

// claim returns an error if no peer could ask for a tensor of a file by its name.
func (s *serving) claim(name, file string) error {
	const most = 1024 // of remote.OfferOptions.Name
	other, twice := s.files[name]
	s.files[name] = file
	switch {
	case name == "":
		return core.Errorf(core.ErrInvalid, "dlx", "serve", "%s has a tensor without a name, which no peer could ask for: --only '?*' offers the others", file)
	case len(name) > most:
		return core.Errorf(core.ErrInvalid, "dlx", "serve", "the name of a tensor of %s has %d bytes, and at most %d are possible: offer the others by --only. It begins with %q", file, len(name), most, name[:64])
	case twice:
		return core.Errorf(core.ErrExists, "dlx", "serve", "%s and %s both have a tensor %q: start a dlx serve for each of them, with an address of its own, or offer the other tensors by --only", other, file, name)
	}
	return nil
}

// offer offers all tensors. The offers end with the listener.
func (s *serving) offer() error {
	s.r.Address = s.listener.Addr().String()
	for _, x := range s.tensors {
		offer, err := s.listener.Offer(x.tensor, x.options)
		if err != nil {
			return err
		}
		s.offers = append(s.offers, offer)
		s.r.Tensors = append(s.r.Tensors, servedTensor{resultName(x.options.Name), x.tensor.DType(), x.tensor.Shape(), x.tensor.NumBytes()})
		s.r.Bytes += x.tensor.NumBytes()
	}
	s.forget() // the offers keep them
	return nil
}

// forget closes the tensors that were added.
func (s *serving) forget() {
	for _, x := range s.tensors {
		_ = x.tensor.Close()
	}
	s.tensors = nil
}

// accept takes connections until ctx ends, and then closes them.
func (s *serving) accept(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work.Go(func() { s.tell(ctx) })
	for {
		c, err := s.listener.Accept(ctx)
		if ctx.Err() != nil { // the usual end
			if c != nil {
				_ = c.Close()
			}
			return nil
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.r.Connections++
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		s.log.Info().Stringer("peer", c.Peer()).Msg("connected")
		work.Go(func() { s.follow(ctx, c) })
	}
}

// names returns the names of the first tensors.
func (s *serving) names() string {
	const most = 3
	var names []string
	for _, t := range s.r.Tensors[:min(most, len(s.r.Tensors))] {
		names = append(names, shownName(t.Tensor))
	}
	text := strings.Join(names, ", ")
	if n := len(s.r.Tensors) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// tellEvery is how often dlx serve says what its peers have taken. A test changes it.
var tellEvery = time.Second

// tell says what all peers together have taken, each time that there is something new, until ctx ends.
func (s *serving) tell(ctx context.Context) {
	ticks := time.NewTicker(tellEvery)
	defer ticks.Stop()
	for requests, sent := int64(0), int64(0); ; {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		peers, served, bytes := s.taken()
		if served == requests && bytes == sent {
			continue
		}
		requests, sent = served, bytes
		s.log.Info().Int("peers", peers).Int64("requests", served).Str("sent", formatBytes(bytes)).Msg("taken")
	}
}

// taken returns the number of open connections, and the requests and bytes of all connections. Bytes of requests that are being
// served count, too.
func (s *serving) taken() (peers int, requests, bytes int64) {
	bytes = s.echoed.Load()
	for _, o := range s.offers {
		bytes += o.BytesRead()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	requests = s.r.Served
	for c := range s.conns {
		requests += c.Stats().Served
	}
	return len(s.conns), requests, bytes
}

// follow waits for the end of a connection, and counts what it has done.
func (s *serving) follow(ctx context.Context, c *remote.Conn) {
	if s.bench {
		s.echo(ctx, c)
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
	}
	why := c.Err()
	_ = c.Close()
	x := c.Stats()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.r.Served, s.r.Refused, s.r.Sent = s.r.Served+x.Served, s.r.Refused+x.Refused, s.r.Sent+x.BytesSent
	event := s.log.Info()
	if why != nil && !errors.Is(why, io.EOF) {
		event = s.log.Warn().Err(validError{why})
	}
	event.Stringer("peer", c.Peer()).Int64("requests", x.Served).Str("sent", formatBytes(x.BytesSent)).Msg("disconnected")
}
