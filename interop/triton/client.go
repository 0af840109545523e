package triton

import (
	"context"
	"math"
	"net/http"
	"sync"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
	"google.golang.org/grpc"
)

// The values that zero stands for in [Options].
const (
	DefaultInline     = 16 << 10
	DefaultPoolLimit  = 2 << 30
	DefaultMaxMessage = 256 << 20
)

// Options are the options of a client. The zero value shares memory where it can.
type Options struct {
	// RawOnly sends all tensors as bytes of messages. No region is made.
	RawOnly bool
	// Inline is the number of bytes up to which a tensor travels in the message, since that is faster. 0 means
	// DefaultInline, and a negative number that no tensor does. Tensors of [Client.Empty] always travel as shared memory.
	Inline int64
	// PoolLimit is the largest sum of the sizes of all regions, in bytes. What does not fit travels in the message. Pages
	// are allocated when a tensor uses them first, so the sum may be larger than what is allocated. 0 means DefaultPoolLimit.
	PoolLimit int64
	// MaxMessage is the largest message that is sent or received, in bytes; gRPC's own limit is 4 MiB. 0 means
	// DefaultMaxMessage. It can be up to 2 GiB - 1. The server has a limit of its own.
	MaxMessage int64
	// CUDA lets tensors on CUDA devices travel as memory of the device. See the package documentation.
	CUDA bool
	// GRPC are more options of the connection of [Dial], such as credentials. Without them it is not encrypted.
	GRPC []grpc.DialOption
	// HTTP is the client of [DialHTTP]. If it is nil, DialHTTP makes one. Close closes its idle connections.
	HTTP *http.Client

	folder string // where regions are made; tests set it
}

// Client is a connection with a server, and the regions that they share. It is safe for concurrent use. The caller closes it.
type Client struct {
	o      Options
	server transport
	pool   *pool
	host   core.Device // copies within the memory of the host

	ctx    context.Context // ends at Close
	cancel context.CancelFunc

	mu      sync.Mutex
	calls   sync.WaitGroup // calls that use the pool or the server; added to under mu
	closed  bool
	refused [Raw]string            // why memory is not shared, by mechanism; empty: it is
	stale   []string               // regions of processes that have ended, which the server may have
	models  map[modelKey]outputsOf // what earlier answers tell
}

// outputsOf is what the answers of a model tell about its outputs.
type outputsOf struct {
	sizes map[string]int64 // the largest so far
	all   bool             // sizes has all outputs of the model
}

// modelKey names a version of a model as the caller does.
type modelKey struct{ model, version string }

var liveClients = live.NewCounter("triton.Client")

// Dial returns a client for a server that speaks gRPC at a target such as "localhost:8001". It does not wait for the server:
// call [Client.Ready] for that. Dial removes the names of regions that processes of this user have left when they were
// killed. It returns core.ErrInvalid for an option or a target that is not valid.
func Dial(target string, o Options) (*Client, error) {
	return newClient("Dial", o, func(o Options) (transport, error) { return dialGRPC(target, o) })
}

// DialHTTP is like [Dial] for a server that speaks HTTP, at a URL such as "http://localhost:8000".
func DialHTTP(url string, o Options) (*Client, error) {
	return newClient("DialHTTP", o, func(o Options) (transport, error) { return dialHTTP(url, o) })
}

func newClient(call string, o Options, dial func(Options) (transport, error)) (*Client, error) {
	if o.PoolLimit < 0 || o.MaxMessage < 0 || o.MaxMessage > math.MaxInt32 {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "Options.PoolLimit is %d and Options.MaxMessage is %d: neither may be negative, and the latter must be below 2 GiB", o.PoolLimit, o.MaxMessage)
	}
	for field, standard := range map[*int64]int64{&o.Inline: DefaultInline, &o.PoolLimit: DefaultPoolLimit, &o.MaxMessage: DefaultMaxMessage} {
		if *field == 0 {
			*field = standard
		}
	}
	if o.folder == "" {
		o.folder = defaultFolder
	}
	host, err := cpu.New().Open(context.Background(), core.CPU)
	if err != nil {
		return nil, err
	}
	server, err := dial(o)
	if err != nil {
		_ = host.Close()
		return nil, err
	}
	c := &Client{o: o, server: server, host: host, pool: newPool(o.folder, o.PoolLimit, server), models: make(map[modelKey]outputsOf)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for m := range c.refused {
		c.refused[m] = o.never(Mechanism(m))
	}
	if c.refused[Shared] == "" {
		c.stale = sweep(o.folder)
	}
	liveClients.Add(1)
	return c, nil
}

// begin starts a call. On success the caller calls end, and the context also ends when the client is closed.
func (c *Client) begin(ctx context.Context, call string) (_ context.Context, end func(), err error) {
	if c == nil || c.server == nil {
		return nil, nil, core.Errorf(core.ErrInvalid, backend, call, "the client is nil, or was not made by Dial or DialHTTP")
	}
	if ctx == nil {
		return nil, nil, core.Errorf(core.ErrInvalid, backend, call, "the context is nil")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, core.Errorf(core.ErrClosed, backend, call, "the client was closed")
	}
	c.calls.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
		c.calls.Done()
	}, nil
}

// Close ends the calls of the client, takes its regions away from the server, for at most five seconds, and removes their
// names. Tensors on the regions stay valid. Closing again, or closing nil, does nothing. Close returns the error of closing
// the connection.
func (c *Client) Close() error {
	if c == nil || c.server == nil {
		return nil
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.calls.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	c.pool.close(ctx)
	err := c.server.close()
	liveClients.Add(-1)
	if closed := c.host.Close(); err == nil {
		err = closed
	}
	return named("Close", err)
}

// Ready reports whether the server is ready for requests. The error wraps [ErrUnavailable] if it does not answer.
func (c *Client) Ready(ctx context.Context) (bool, error) {
	ctx, end, err := c.begin(ctx, "Ready")
	if err != nil {
		return false, err
	}
	defer end()
	return c.server.ready(ctx)
}

// ModelReady reports whether a model is ready for requests. If version is empty, the server chooses one.
func (c *Client) ModelReady(ctx context.Context, model, version string) (bool, error) {
	ctx, end, err := c.begin(ctx, "ModelReady")
	if err != nil {
		return false, err
	}
	defer end()
	return c.server.modelReady(ctx, model, version)
}

// Model describes a model, as the server does. Nothing of it is checked.
type Model struct {
	Name, Platform  string
	Versions        []string
	Inputs, Outputs []TensorInfo
}

// TensorInfo describes an input or an output of a model.
type TensorInfo struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"` // as the protocol names it, such as "FP32"
	Shape    []int64 `json:"shape"`    // -1 for an extent that varies
}

// Model returns the server's description of a model. If version is empty, the server chooses one.
func (c *Client) Model(ctx context.Context, model, version string) (Model, error) {
	ctx, end, err := c.begin(ctx, "Model")
	if err != nil {
		return Model{}, err
	}
	defer end()
	return c.server.model(ctx, model, version)
}

// Empty returns a row-major tensor in shared memory, which travels to the server without a copy. Its elements are not
// initialized. The caller closes it, before or after the client. Empty returns core.ErrDType for a type that the protocol
// has not, core.ErrLayout for a shape that is not valid or has no elements, core.ErrOutOfMemory if the memory or the pool is exhausted, and core.ErrNotSupported
// if Options.RawOnly is set or the system has no such memory. It does not ask the server, which may still refuse the memory.
func (c *Client) Empty(ctx context.Context, dtype core.DType, shape []int64) (*core.Tensor, error) {
	return c.empty(ctx, "Empty", nil, dtype, shape)
}

// EmptyOn is like [Client.Empty] for memory of a CUDA device that the server opens. It returns core.ErrNotSupported unless
// Options.CUDA is set, and for a device without such memory. The device can be closed when the tensor and the client are.
func (c *Client) EmptyOn(ctx context.Context, d core.Device, dtype core.DType, shape []int64) (*core.Tensor, error) {
	if d == nil {
		return nil, core.Errorf(core.ErrInvalid, backend, "EmptyOn", "the device is nil")
	}
	return c.empty(ctx, "EmptyOn", d, dtype, shape)
}

func (c *Client) empty(ctx context.Context, call string, d core.Device, dtype core.DType, shape []int64) (*core.Tensor, error) {
	ctx, end, err := c.begin(ctx, call)
	if err != nil {
		return nil, err
	}
	defer end()
	kind := mechanismFor(d)
	if why := c.o.never(kind); why != "" {
		return nil, core.Errorf(core.ErrNotSupported, backend, call, "%s", why)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := datatypeOf(call, "", dtype); err != nil {
		return nil, core.Errorf(core.ErrDType, backend, call, "the protocol has no name for %v", dtype)
	}
	size, err := sizeOf(call, dtype, shape)
	if err != nil {
		return nil, err
	}
	if size == 0 {
		return nil, core.Errorf(core.ErrLayout, backend, call, "shape %v has no elements", shape)
	}
	s, err := c.pool.get(ctx, d, size)
	if err != nil {
		return nil, err
	}
	t, err := s.tensor(size, dtype, shape)
	if err != nil {
		s.Free()
		return nil, err
	}
	return t, nil
}

// never says why the options or the system rule a mechanism out.
func (o Options) never(m Mechanism) string {
	switch {
	case o.RawOnly:
		return "Options.RawOnly is set"
	case m == SharedCUDA && !o.CUDA:
		return "Options.CUDA is not set"
	case m == Shared && !hasShared:
		return "this system has no shared memory that a server opens by its name"
	}
	return ""
}

// mechanismFor returns how memory of d is shared; d is nil for the host.
func mechanismFor(d core.Device) Mechanism {
	if d == nil {
		return Shared
	}
	return SharedCUDA
}

// sizeOf returns the number of bytes of a row-major tensor.
func sizeOf(call string, dtype core.DType, shape []int64) (int64, error) {
	l, err := core.NewLayout(shape...)
	if err != nil {
		return 0, named(call, err)
	}
	return dtype.Size(l.NumElements(), false)
}

// tensor returns a row-major tensor on the slot. If it succeeds, the tensor owns the slot.
func (s *slot) tensor(size int64, dtype core.DType, shape []int64) (*core.Tensor, error) {
	return s.wrap(size, dtype, shape, s)
}

// view is like tensor, but the caller still owns the slot, and frees it after the tensor is closed.
func (s *slot) view(size int64, dtype core.DType, shape []int64) (*core.Tensor, error) {
	return s.wrap(size, dtype, shape, nil)
}

func (s *slot) wrap(size int64, dtype core.DType, shape []int64, owner core.Owner) (*core.Tensor, error) {
	spec := core.Spec{DType: dtype, Shape: shape}
	if d := s.region.class.device; d != nil {
		importer, ok := core.As[core.PointerImporter](d)
		if !ok {
			return nil, core.Errorf(core.ErrNotSupported, backend, "EmptyOn", "%v takes no addresses of its memory", d.ID())
		}
		m, err := importer.ImportPointer(s.address(), size, nil)
		if err != nil {
			return nil, err
		}
		// The slot may be handed out again only after the device has let go of the address.
		free := m.Owner
		m.Owner = core.FreeFunc(func() {
			if free != nil {
				free.Free()
			}
			if owner != nil {
				owner.Free()
			}
		})
		t, err := core.Wrap(m, spec)
		if err != nil && free != nil {
			free.Free()
		}
		return t, err
	}
	return core.Wrap(core.Memory{ID: core.CPU, Handle: s.address(), Size: size, Owner: owner}, spec)
}
