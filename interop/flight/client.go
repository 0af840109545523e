package flight

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

var openClients = live.NewCounter("flight.Client")

// maxList bounds the tensors that List returns.
const maxList = 1 << 20

// Client gets tensors from a server and puts them. It is safe for concurrent use.
type Client struct {
	o      ClientOptions
	conn   *grpc.ClientConn
	flight flight.FlightServiceClient
	pool   bufferPool
	once   sync.Once
}

// NewClient returns a client of the server at an address, such as host:8815 or unix:/path. The caller closes it. The
// client connects at the first call, and again after a connection is lost. NewClient fails with ErrInvalid if the
// options are wrong.
func NewClient(address string, o ClientOptions) (*Client, error) {
	const call = "NewClient"
	if err := o.check(address); err != nil {
		return nil, err
	}
	transport := insecure.NewCredentials()
	if o.TLS != nil {
		transport = credentials.NewTLS(o.TLS.Clone())
	}
	options := append(o.dialOptions(), grpc.WithTransportCredentials(transport))
	if o.Token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer{o.Token, !o.Insecure}))
	}
	target := address
	if !strings.HasPrefix(address, "unix:") {
		target = "passthrough:///" + address
	}
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, fail(because(core.ErrInvalid, err), call, "%.100q is not an address", address)
	}
	openClients.Add(1)
	return &Client{o: o, conn: conn, flight: flight.NewFlightServiceClient(conn)}, nil
}

// bearer is a token that goes with each call.
type bearer struct {
	token  string
	secure bool
}

var _ credentials.PerRPCCredentials = bearer{}

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token}, nil
}

func (b bearer) RequireTransportSecurity() bool { return b.secure }

// Get returns a tensor of the server, in memory of d. The caller closes it. rows are none, or the first row that is
// wanted and the one after the last. The result is row-major, unless the sender has permuted the axes.
//
// Get asks the server for the ticket, and calls the same server with it, whatever locations it names. With rows it makes
// the ticket itself, which only servers of this package understand. Get returns
//
//   - ErrInvalid if an argument is nil or wrong, if the server has no such tensor, or if what arrives is not a tensor or
//     contradicts itself;
//   - ErrDType for elements that are no numbers, ErrNotSupported for data that are compressed or in big-endian order;
//   - ErrOutOfMemory if the tensor has more than the TensorBytes of the options, or d has too little memory, or if the
//     server or a message reaches a limit;
//   - ErrClosed if the client is closed, the server cannot be reached or the connection breaks;
//   - context.DeadlineExceeded if the server's limit of time is over, also if ctx has no deadline;
//   - ctx's error. No other wait has an end: use a context with a deadline.
func (c *Client) Get(ctx context.Context, name string, d core.Device, rows ...int64) (*core.Tensor, Report, error) {
	const call = "Get"
	begin := time.Now()
	if c == nil || d == nil {
		return nil, Report{}, fail(core.ErrInvalid, call, "the client or the device is nil")
	}
	if err := checkName(call, name); err != nil {
		return nil, Report{}, err
	}
	if len(rows) != 0 && len(rows) != 2 {
		return nil, Report{}, fail(core.ErrInvalid, call, "%d numbers for the rows: none or two are possible", len(rows))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked, announced := ticket{Name: name, Rows: rows}.bytes(), int64(unknown)
	if len(rows) == 0 {
		info, err := c.flight.GetFlightInfo(ctx, descriptor(name))
		if err != nil {
			return nil, Report{}, fromStatus(ctx, call, err)
		}
		if n := len(info.Endpoint); n != 1 || info.Endpoint[0].GetTicket() == nil {
			return nil, Report{}, fail(core.ErrNotSupported, call, "tensor %q has %d endpoints: exactly one with a ticket is possible", name, n)
		}
		asked, announced = info.Endpoint[0].Ticket.Ticket, info.TotalRecords
	}
	stream, err := c.flight.DoGet(ctx, &flight.Ticket{Ticket: asked})
	if err != nil {
		return nil, Report{}, fromStatus(ctx, call, err)
	}
	asFor := func(shape []int64) error {
		if len(rows) != 0 && (len(shape) == 0 || shape[0] != unknown && shape[0] != rows[1]-rows[0]) {
			return fail(core.ErrInvalid, call, "rows %d to %d were asked for, but a tensor of shape %v arrived", rows[0], rows[1], shape)
		}
		return nil
	}
	r := receiver{
		call: call, device: d, limit: c.o.TensorBytes,
		reserve: func(int64) error { return nil },
		accept:  func(k *kind) error { return asFor(k.shape) },
	}
	defer r.drop()
	t, err := r.receive(ctx, announced, func(f *frame) error { return fromStatus(ctx, call, stream.RecvMsg(f)) })
	if err == nil {
		if err = asFor(t.Shape()); err != nil { // of a sender that did not tell the number before
			_ = t.Close()
			t = nil
		}
	}
	r.report.Time = time.Since(begin)
	return t, r.report, err
}

// Put sends a tensor, which may be on any opened device and have any strides, and returns when the server has it. The
// caller still owns t. Put returns
//
//   - ErrInvalid if an argument is nil or wrong, or the server refuses the tensor;
//   - ErrDType or ErrLayout if Flight cannot express the tensor;
//   - ErrExists, ErrOutOfMemory or ErrNotSupported if the server says so;
//   - ErrClosed if the client is closed, the server cannot be reached or the connection breaks;
//   - context.DeadlineExceeded if the server's limit of time is over, also if ctx has no deadline;
//   - the error of the last write to t, or ctx's error. No other wait has an end: use a context with a deadline.
func (c *Client) Put(ctx context.Context, name string, t *core.Tensor) (Report, error) {
	const call = "Put"
	begin := time.Now()
	if c == nil || t == nil {
		return Report{}, fail(core.ErrInvalid, call, "the client or the tensor is nil")
	}
	if err := checkName(call, name); err != nil {
		return Report{}, err
	}
	to, err := proto.Marshal(descriptor(name))
	if err != nil {
		return Report{}, fail(because(core.ErrInvalid, err), call, "the name cannot be sent")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.flight.DoPut(ctx)
	if err != nil {
		return Report{}, fromStatus(ctx, call, err)
	}
	// A server may answer each batch, and stops reading when nobody takes its answers.
	answered := make(chan error, 1)
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				answered <- err
				return
			}
		}
	}()
	s := sender{call: call, batch: c.o.BatchBytes, limit: c.o.Message, pool: &c.pool}
	r, err := s.send(ctx, t, to, func(f *frame) error { return fromStatus(ctx, call, stream.SendMsg(f)) })
	early := errors.Is(err, io.EOF) // the server has ended the call, and its reason is its answer
	if err == nil {
		err = fromStatus(ctx, call, stream.CloseSend())
	}
	if err != nil && !early {
		cancel() // ends the wait for answers
		<-answered
		return r, err
	}
	switch err := <-answered; {
	case !errors.Is(err, io.EOF):
		return r, fromStatus(ctx, call, err)
	case early:
		return r, fail(core.ErrInvalid, call, "the server ended the call before it had the whole tensor")
	}
	r.Time = time.Since(begin)
	return r, nil
}

// List describes the tensors of the server. It leaves out what is not a tensor. It returns ErrInvalid if the server
// offers more than 2**20 flights, and the errors of Get for the connection.
func (c *Client) List(ctx context.Context) ([]Info, error) {
	const call = "List"
	if c == nil {
		return nil, fail(core.ErrInvalid, call, "the client is nil")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.flight.ListFlights(ctx, &flight.Criteria{})
	if err != nil {
		return nil, fromStatus(ctx, call, err)
	}
	var list []Info
	for range maxList {
		x, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, fromStatus(ctx, call, err)
		}
		name, err := nameOf(call, x.FlightDescriptor)
		if err != nil {
			continue
		}
		k, err := readInfoSchema(call, x.Schema)
		if err != nil {
			continue
		}
		if rows := x.TotalRecords; k.rows == unknown && rows >= 0 {
			if _, ok := k.bytes(rows); ok {
				k.rows, k.shape[0] = rows, rows
			}
		}
		list = append(list, k.info(name))
	}
	return nil, fail(core.ErrInvalid, call, "the server offers more than %d flights", maxList)
}

// Delete deletes a tensor that a client has put on a server of this package. It returns ErrInvalid if there is none, or if the
// tensor belongs to the program of the server, and the errors of Get for the connection.
func (c *Client) Delete(ctx context.Context, name string) error {
	const call = "Delete"
	if c == nil {
		return fail(core.ErrInvalid, call, "the client is nil")
	}
	if err := checkName(call, name); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.flight.DoAction(ctx, &flight.Action{Type: actionDelete, Body: []byte(name)})
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fromStatus(ctx, call, err)
}

// Close closes the connection, which ends all calls: they return ErrClosed, and so do later ones. Closing twice is safe.
func (c *Client) Close() error {
	if c == nil {
		return nil
	}
	var err error
	c.once.Do(func() {
		err = c.conn.Close()
		openClients.Add(-1)
	})
	return err
}
