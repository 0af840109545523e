package triton

import (
	"context"
	"math"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/interop/triton/internal/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// service is the name of the service of the protocol.
const service = "/inference.GRPCInferenceService/"

// The names of the parameters of tensors that lie in shared memory, in gRPC and HTTP.
const (
	regionParameter = "shared_memory_region"
	offsetParameter = "shared_memory_offset"
	sizeParameter   = "shared_memory_byte_size"
)

type grpcTransport struct{ conn *grpc.ClientConn }

var _ transport = (*grpcTransport)(nil)

func dialGRPC(target string, o Options) (transport, error) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(int(o.MaxMessage)), grpc.MaxCallSendMsgSize(int(o.MaxMessage))),
		grpc.WithReadBufferSize(256 << 10), grpc.WithWriteBufferSize(256 << 10), // raw tensors are large
	}
	conn, err := grpc.NewClient(target, append(options, o.GRPC...)...)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, backend, "Dial", "the target %q: %v", target, err)
	}
	return &grpcTransport{conn}, nil
}

func (g *grpcTransport) close() error {
	if err := g.conn.Close(); err != nil {
		return core.Errorf(core.ErrInvalid, backend, "Close", "%v", err)
	}
	return nil
}

// call calls a method. Its error is typed.
func (g *grpcTransport) call(ctx context.Context, method string, in, out any) error {
	err := g.conn.Invoke(ctx, service+method, in, out)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s := status.Convert(err)
	sentinel := core.ErrInvalid
	switch s.Code() {
	case codes.Unavailable:
		sentinel = ErrUnavailable
	case codes.Canceled, codes.DeadlineExceeded:
		// Not by ctx: a deadline that ctx is about to reach, or one of the server.
		if deadline, ok := ctx.Deadline(); ok && s.Code() == codes.DeadlineExceeded && !deadline.IsZero() {
			return context.DeadlineExceeded
		}
		sentinel = ErrUnavailable
	case codes.Unimplemented:
		sentinel = core.ErrNotSupported
	case codes.ResourceExhausted:
		sentinel = core.ErrOutOfMemory
	}
	return serverError(method, sentinel, int64(s.Code()), s.Message())
}

func (g *grpcTransport) ready(ctx context.Context) (bool, error) {
	var out wire.ServerReadyResponse
	err := g.call(ctx, "ServerReady", &wire.ServerReadyRequest{}, &out)
	return out.GetReady(), err
}

func (g *grpcTransport) modelReady(ctx context.Context, model, version string) (bool, error) {
	var out wire.ModelReadyResponse
	err := g.call(ctx, "ModelReady", &wire.ModelReadyRequest{Name: model, Version: version}, &out)
	return out.GetReady(), err
}

func (g *grpcTransport) model(ctx context.Context, model, version string) (Model, error) {
	var out wire.ModelMetadataResponse
	if err := g.call(ctx, "ModelMetadata", &wire.ModelMetadataRequest{Name: model, Version: version}, &out); err != nil {
		return Model{}, err
	}
	infos := func(list []*wire.ModelMetadataResponse_TensorMetadata) []TensorInfo {
		var all []TensorInfo
		for _, x := range list {
			all = append(all, TensorInfo{x.GetName(), x.GetDatatype(), x.GetShape()})
		}
		return all
	}
	return Model{Name: out.GetName(), Platform: out.GetPlatform(), Versions: out.GetVersions(), Inputs: infos(out.GetInputs()), Outputs: infos(out.GetOutputs())}, nil
}

// parameters are those of a tensor in shared memory.
func (p *place) parameters() map[string]*wire.InferParameter {
	if p == nil {
		return nil
	}
	number := func(n int64) *wire.InferParameter {
		return &wire.InferParameter{ParameterChoice: &wire.InferParameter_Int64Param{Int64Param: n}}
	}
	all := map[string]*wire.InferParameter{
		regionParameter: {ParameterChoice: &wire.InferParameter_StringParam{StringParam: p.region}},
		sizeParameter:   number(p.size),
	}
	if p.offset != 0 {
		all[offsetParameter] = number(p.offset)
	}
	return all
}

// placeOf returns the place that the parameters of an output name, or nil.
func placeOf(parameters map[string]*wire.InferParameter) *place {
	region, ok := parameters[regionParameter].GetParameterChoice().(*wire.InferParameter_StringParam)
	if !ok {
		return nil
	}
	return &place{region: region.StringParam, offset: number(parameters[offsetParameter]), size: number(parameters[sizeParameter])}
}

// number returns the number of a parameter: 0 if there is none, and -1 if it is not one that an int64 holds.
func number(p *wire.InferParameter) int64 {
	switch n := p.GetParameterChoice().(type) {
	case nil:
		return 0
	case *wire.InferParameter_Int64Param:
		return n.Int64Param
	case *wire.InferParameter_Uint64Param:
		if n.Uint64Param <= math.MaxInt64 {
			return int64(n.Uint64Param)
		}
	}
	return -1
}

func (g *grpcTransport) infer(ctx context.Context, r *request) (*answer, error) {
	in := &wire.ModelInferRequest{ModelName: r.model, ModelVersion: r.version, Id: r.id}
	for _, x := range r.inputs {
		in.Inputs = append(in.Inputs, &wire.ModelInferRequest_InferInputTensor{Name: x.name, Datatype: x.datatype, Shape: x.shape, Parameters: x.at.parameters()})
		if x.at == nil {
			in.RawInputContents = append(in.RawInputContents, x.raw)
		}
	}
	for _, x := range r.outputs {
		in.Outputs = append(in.Outputs, &wire.ModelInferRequest_InferRequestedOutputTensor{Name: x.name, Parameters: x.at.parameters()})
	}
	out := new(wire.ModelInferResponse)
	if err := g.call(ctx, "ModelInfer", in, out); err != nil {
		return nil, err
	}
	return readInferResponse(out)
}

// readInferResponse reads an answer. Its list of raw contents has an entry for each output, which is empty for those in
// shared memory; it has none at all if all outputs are there.
func readInferResponse(in *wire.ModelInferResponse) (*answer, error) {
	a := &answer{model: in.GetModelName(), version: in.GetModelVersion()}
	raw, next := in.GetRawOutputContents(), 0
	for _, x := range in.GetOutputs() {
		if x.GetContents() != nil {
			return nil, core.Errorf(core.ErrNotSupported, backend, "ModelInfer", "output %.200q has typed contents: only raw contents are read, as Triton sends them", x.GetName())
		}
		out := received{name: x.GetName(), datatype: x.GetDatatype(), shape: x.GetShape(), at: placeOf(x.GetParameters())}
		if next < len(raw) {
			out.raw = raw[next]
			next++
		}
		a.outputs = append(a.outputs, out)
	}
	if next != len(raw) {
		return nil, core.Errorf(core.ErrInvalid, backend, "ModelInfer", "the answer has raw contents for %d outputs, and %d outputs", len(raw), len(in.GetOutputs()))
	}
	return a, nil
}

func (g *grpcTransport) register(ctx context.Context, cuda bool, r registration) error {
	if cuda {
		return g.call(ctx, "CudaSharedMemoryRegister", &wire.CudaSharedMemoryRegisterRequest{Name: r.name, RawHandle: r.handle, DeviceId: r.device, ByteSize: uint64(r.size)}, new(wire.CudaSharedMemoryRegisterResponse))
	}
	return g.call(ctx, "SystemSharedMemoryRegister", &wire.SystemSharedMemoryRegisterRequest{Name: r.name, Key: r.key, ByteSize: uint64(r.size)}, new(wire.SystemSharedMemoryRegisterResponse))
}

func (g *grpcTransport) unregister(ctx context.Context, cuda bool, name string) error {
	if cuda {
		return g.call(ctx, "CudaSharedMemoryUnregister", &wire.CudaSharedMemoryUnregisterRequest{Name: name}, new(wire.CudaSharedMemoryUnregisterResponse))
	}
	return g.call(ctx, "SystemSharedMemoryUnregister", &wire.SystemSharedMemoryUnregisterRequest{Name: name}, new(wire.SystemSharedMemoryUnregisterResponse))
}

func (g *grpcTransport) registered(ctx context.Context, cuda bool, name string) (here bool, err error) {
	if cuda {
		var out wire.CudaSharedMemoryStatusResponse
		err = g.call(ctx, "CudaSharedMemoryStatus", &wire.CudaSharedMemoryStatusRequest{Name: name}, &out)
		_, here = out.GetRegions()[name]
	} else {
		var out wire.SystemSharedMemoryStatusResponse
		err = g.call(ctx, "SystemSharedMemoryStatus", &wire.SystemSharedMemoryStatusRequest{Name: name}, &out)
		_, here = out.GetRegions()[name]
	}
	if answeredError(err) { // it names a region that the server has not
		return false, nil
	}
	return here, err
}
