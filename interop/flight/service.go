package flight

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/flight"
	gen "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/dlx-go/dlx/core"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// service has the calls of Flight.
type service struct {
	flight.BaseFlightServer
	s *Server
}

var _ flight.FlightServer = (*service)(nil)

// streamed returns the description of the calls in which each call is a stream. A client sees no difference. gRPC reads
// the message of another call before it asks an interceptor, so that anybody could make the server hold messages.
func streamed() *grpc.ServiceDesc {
	d := gen.FlightService_ServiceDesc
	d.Streams, d.Methods = slices.Clone(d.Streams), nil
	for _, m := range gen.FlightService_ServiceDesc.Methods {
		d.Streams = append(d.Streams, grpc.StreamDesc{StreamName: m.MethodName, Handler: func(srv any, stream grpc.ServerStream) error {
			answer, err := m.Handler(srv, stream.Context(), stream.RecvMsg, nil)
			if err != nil {
				return err
			}
			return stream.SendMsg(answer)
		}})
	}
	return &d
}

// actionDelete is the type of the action that deletes a tensor.
const actionDelete = "delete"

// infoOf describes a tensor that the server offers.
func (v *service) infoOf(call, name string) (*flight.FlightInfo, error) {
	t, err := v.s.lookUp(call, name)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	k, err := newKind(call, t.DType(), t.Shape())
	if err != nil {
		return nil, err
	}
	return &flight.FlightInfo{
		Schema:           k.serialized(),
		FlightDescriptor: descriptor(name),
		Endpoint:         []*flight.FlightEndpoint{{Ticket: &flight.Ticket{Ticket: ticket{Name: name}.bytes()}}},
		TotalRecords:     k.rows,
		TotalBytes:       t.NumBytes(),
		Ordered:          true,
	}, nil
}

func (v *service) GetFlightInfo(_ context.Context, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	const call = "GetFlightInfo"
	name, err := nameOf(call, d)
	if err != nil {
		return nil, err
	}
	return v.infoOf(call, name)
}

func (v *service) GetSchema(ctx context.Context, d *flight.FlightDescriptor) (*flight.SchemaResult, error) {
	info, err := v.GetFlightInfo(ctx, d)
	if err != nil {
		return nil, err
	}
	return &flight.SchemaResult{Schema: info.Schema}, nil
}

func (v *service) ListFlights(c *flight.Criteria, stream flight.FlightService_ListFlightsServer) error {
	const call = "ListFlights"
	if len(c.GetExpression()) != 0 {
		return fail(core.ErrNotSupported, call, "the server has no criteria: leave the expression empty")
	}
	for _, name := range v.s.Names() {
		info, err := v.infoOf(call, name)
		if err != nil {
			continue // it was withdrawn in between
		}
		if err := stream.Send(info); err != nil {
			return err
		}
	}
	return nil
}

func (v *service) DoGet(in *flight.Ticket, stream flight.FlightService_DoGetServer) error {
	const call = "DoGet"
	t, err := readTicket(call, in.GetTicket())
	if err != nil {
		return err
	}
	whole, err := v.s.lookUp(call, t.Name)
	if err != nil {
		return err
	}
	defer whole.Close()
	x, err := t.rowsOf(call, whole)
	if err != nil {
		return err
	}
	defer x.Close()
	s := sender{call: call, batch: v.s.o.BatchBytes, limit: v.s.o.Limits.Message, pool: &v.s.pool}
	_, err = s.send(stream.Context(), x, nil, func(f *frame) error { return stream.SendMsg(f) })
	return err
}

// DoPut takes a tensor. Until it is complete, the name is claimed and the tensor cannot be seen. After an error nothing is left.
func (v *service) DoPut(stream flight.FlightService_DoPutServer) error {
	const call = "DoPut"
	ctx, o := stream.Context(), &v.s.o
	if o.Device == nil {
		return fail(core.ErrNotSupported, call, "the server takes no tensors")
	}
	var name, claimed string
	r := receiver{
		call: call, device: o.Device, limit: o.Limits.TensorBytes,
		reserve: func(n int64) error { return v.s.reserve(call, n) },
		accept: func(k *kind) error {
			if err := k.checkRow(call, o.Limits.Message); err != nil {
				return err
			}
			if err := v.s.claim(call, name); err != nil {
				return err
			}
			claimed = name
			if o.Accept == nil {
				return nil
			}
			return o.Accept(ctx, k.info(name))
		},
	}
	first := true
	t, err := r.receive(ctx, unknown, func(f *frame) error {
		err := stream.RecvMsg(f)
		if err == nil && f.err == nil && first {
			first = false
			name, err = readDescriptor(call, f.descriptor)
		}
		return err
	})
	if err != nil {
		r.drop()
		if claimed != "" {
			v.s.disclaim(claimed)
		}
		return err
	}
	return v.s.keep(call, name, t, r.keep())
}

// readDescriptor returns the name in the descriptor of the first message of a put.
func readDescriptor(call string, b []byte) (string, error) {
	var d flight.FlightDescriptor
	if err := proto.Unmarshal(b, &d); err != nil {
		return "", fail(because(core.ErrInvalid, err), call, "the descriptor is malformed")
	}
	return nameOf(call, &d)
}

func (v *service) ListActions(_ *flight.Empty, stream flight.FlightService_ListActionsServer) error {
	return stream.Send(&flight.ActionType{Type: actionDelete, Description: "Deletes the tensor that a client has put under the name in the body."})
}

func (v *service) DoAction(a *flight.Action, _ flight.FlightService_DoActionServer) error {
	const call = "DoAction"
	if a.GetType() != actionDelete {
		return fail(core.ErrNotSupported, call, "there is no action %.100q: %s is the only one", a.GetType(), actionDelete)
	}
	return v.s.remove(call, string(a.GetBody()), true)
}
