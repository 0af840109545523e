package triton

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/interop/triton/internal/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fakeRegion is a region that the fake server has open.
type fakeRegion struct {
	file   *os.File // of memory of the host
	memory cardMemory
	size   int64
}

// cardMemory is memory of a simulated card, as the fake server reads and writes it.
type cardMemory interface {
	read(offset, size int64) ([]byte, error)
	write(offset int64, p []byte) error
	close()
}

// fakeTensor is an input or output of a model of the fake server.
type fakeTensor struct {
	name, datatype string
	shape          []int64
	raw            []byte
}

// fakeOutput is where an output is asked for.
type fakeOutput struct {
	name string
	at   *place
}

// fakeServer is a server of the protocol in this process. It reads and writes shared memory as Triton does, and checks
// all requests.
type fakeServer struct {
	folder string
	models map[string]func(ctx context.Context, inputs []fakeTensor) ([]fakeTensor, error)
	// openCard opens the handle of memory of a simulated card; nil: the server has no card.
	openCard func(handle []byte, device, size int64) (cardMemory, error)
	// change changes an answer before it is sent, as a hostile server does.
	change func(*wire.ModelInferResponse)

	mu        sync.Mutex
	regions   map[bool]map[string]*fakeRegion
	refuse    bool // regions are refused, as if the folder were another one
	notReady  bool
	registers int // how many regions were registered
	infers    int
	lastAt    map[string]*place // where the tensors of the last request were
}

func newFake(t testing.TB) *fakeServer {
	f := &fakeServer{folder: t.TempDir(), regions: map[bool]map[string]*fakeRegion{false: {}, true: {}}}
	f.models = map[string]func(context.Context, []fakeTensor) ([]fakeTensor, error){
		"identity": func(_ context.Context, in []fakeTensor) ([]fakeTensor, error) {
			var out []fakeTensor
			for _, x := range in {
				x.name = strings.Replace(x.name, "IN", "OUT", 1)
				out = append(out, x)
			}
			return out, nil
		},
		"fail": func(context.Context, []fakeTensor) ([]fakeTensor, error) { return nil, fmt.Errorf("the model failed") },
		"wait": func(ctx context.Context, _ []fakeTensor) ([]fakeTensor, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}
	t.Cleanup(f.forget)
	return f
}

// forget closes all regions, as a restart does.
func (f *fakeServer) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, list := range f.regions {
		for name, r := range list {
			r.close()
			delete(list, name)
		}
	}
}

func (r *fakeRegion) close() {
	if r.file != nil {
		r.file.Close()
	} else {
		r.memory.close()
	}
}

// left returns how many regions are registered.
func (f *fakeServer) left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.regions[false]) + len(f.regions[true])
}

func (f *fakeServer) register(cuda bool, r registration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse {
		return status.Errorf(codes.Internal, "Unable to open shared memory region: '%s'", r.key)
	}
	if f.regions[cuda][r.name] != nil {
		return status.Errorf(codes.AlreadyExists, "shared memory region '%s' already in manager", r.name)
	}
	region := &fakeRegion{size: r.size}
	if cuda {
		if f.openCard == nil {
			return status.Error(codes.InvalidArgument, "no card")
		}
		m, err := f.openCard(r.handle, r.device, r.size)
		if err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		region.memory = m
	} else {
		file, err := os.OpenFile(filepath.Join(f.folder, strings.TrimPrefix(r.key, "/")), os.O_RDWR, 0)
		if err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		info, err := file.Stat()
		if err != nil || info.Size() < r.size || info.Mode() != 0o600 || !strings.HasPrefix(r.key, "/") {
			file.Close()
			return status.Errorf(codes.InvalidArgument, "the file has %d bytes and mode %v: %v", info.Size(), info.Mode(), err)
		}
		region.file = file
	}
	f.regions[cuda][r.name] = region
	f.registers++
	return nil
}

func (f *fakeServer) unregister(cuda bool, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.regions[cuda][name]; r != nil {
		r.close()
		delete(f.regions[cuda], name)
	}
}

func (f *fakeServer) has(cuda bool, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.regions[cuda][name] == nil {
		return status.Errorf(codes.NotFound, "Unable to find system shared memory region: '%s'", name)
	}
	return nil
}

// region returns the region of a place, with the place checked. The caller holds mu.
func (f *fakeServer) region(p *place) (*fakeRegion, error) {
	r := f.regions[false][p.region]
	if r == nil {
		r = f.regions[true][p.region]
	}
	if r == nil {
		return nil, status.Errorf(codes.NotFound, "Unable to find shared memory region: '%s'", p.region)
	}
	if p.offset < 0 || p.size <= 0 || p.offset > r.size || p.size > r.size-p.offset {
		return nil, status.Errorf(codes.InvalidArgument, "%v is outside of the region", p)
	}
	return r, nil
}

func (r *fakeRegion) read(offset, size int64) ([]byte, error) {
	if r.file == nil {
		return r.memory.read(offset, size)
	}
	p := make([]byte, size)
	_, err := r.file.ReadAt(p, offset)
	return p, err
}

func (r *fakeRegion) write(offset int64, p []byte) error {
	if r.file == nil {
		return r.memory.write(offset, p)
	}
	_, err := r.file.WriteAt(p, offset)
	return err
}

// infer runs a model. at are the places of the inputs in shared memory.
func (f *fakeServer) infer(ctx context.Context, model string, inputs []fakeTensor, at []*place, outputs []fakeOutput) ([]fakeTensor, []bool, error) {
	run := f.models[model]
	if run == nil {
		return nil, nil, status.Errorf(codes.NotFound, "Request for unknown model: '%s' is not found", model)
	}
	f.mu.Lock()
	f.infers++
	f.lastAt = make(map[string]*place)
	for i := range inputs {
		f.lastAt[inputs[i].name] = at[i]
		if at[i] == nil {
			continue
		}
		r, err := f.region(at[i])
		if err == nil {
			inputs[i].raw, err = r.read(at[i].offset, at[i].size)
		}
		if err != nil {
			f.mu.Unlock()
			return nil, nil, err
		}
	}
	for _, o := range outputs {
		f.lastAt[o.name] = o.at
		if o.at != nil {
			if _, err := f.region(o.at); err != nil {
				f.mu.Unlock()
				return nil, nil, err
			}
		}
	}
	f.mu.Unlock()
	for _, x := range inputs {
		item, ok := datatypes[x.datatype].ItemSize()
		for _, n := range x.shape {
			item *= n
		}
		if !ok || int64(len(x.raw)) != item {
			return nil, nil, status.Errorf(codes.InvalidArgument, "input '%s' has %d bytes, expected %d", x.name, len(x.raw), item)
		}
	}
	results, err := run(ctx, inputs)
	if err != nil {
		return nil, nil, status.Error(codes.Internal, err.Error())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	inRegion := make([]bool, len(results))
	for _, o := range outputs {
		found := false
		for i := range results {
			if results[i].name != o.name {
				continue
			}
			found = true
			if o.at == nil {
				continue
			}
			if int64(len(results[i].raw)) > o.at.size {
				return nil, nil, status.Errorf(codes.Internal, "shared memory size specified with the request for output '%s' (%d bytes) should be at least %d bytes to hold the results", o.name, o.at.size, len(results[i].raw))
			}
			r, err := f.region(o.at)
			if err == nil {
				err = r.write(o.at.offset, results[i].raw)
			}
			if err != nil {
				return nil, nil, err
			}
			results[i].raw, inRegion[i] = nil, true
		}
		if !found {
			return nil, nil, status.Errorf(codes.InvalidArgument, "unexpected inference output '%s' for model '%s'", o.name, model)
		}
	}
	if len(outputs) > 0 {
		var asked []fakeTensor
		var where []bool
		for i, x := range results {
			for _, o := range outputs {
				if o.name == x.name {
					asked, where = append(asked, x), append(where, inRegion[i])
				}
			}
		}
		results, inRegion = asked, where
	}
	return results, inRegion, nil
}

// method describes a method of the service.
func method[In, Out any](name string, do func(context.Context, *In) (*Out, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := new(In)
		if err := decode(in); err != nil {
			return nil, err
		}
		return do(ctx, in)
	}}
}

// serveGRPC starts the server, and returns its target and a function that stops it.
func (f *fakeServer) serveGRPC(t testing.TB, address string) (target string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(1<<30), grpc.MaxSendMsgSize(1<<30))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: strings.Trim(service, "/"), HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		method("ServerReady", func(context.Context, *wire.ServerReadyRequest) (*wire.ServerReadyResponse, error) {
			return &wire.ServerReadyResponse{Ready: !f.notReady}, nil
		}),
		method("ModelReady", func(_ context.Context, in *wire.ModelReadyRequest) (*wire.ModelReadyResponse, error) {
			return &wire.ModelReadyResponse{Ready: f.models[in.Name] != nil}, nil
		}),
		method("ModelMetadata", func(_ context.Context, in *wire.ModelMetadataRequest) (*wire.ModelMetadataResponse, error) {
			return &wire.ModelMetadataResponse{Name: in.Name, Versions: []string{"1"}, Platform: "fake", Inputs: []*wire.ModelMetadataResponse_TensorMetadata{{Name: "IN", Datatype: "FP32", Shape: []int64{-1}}}}, nil
		}),
		method("SystemSharedMemoryRegister", func(_ context.Context, in *wire.SystemSharedMemoryRegisterRequest) (*wire.SystemSharedMemoryRegisterResponse, error) {
			return &wire.SystemSharedMemoryRegisterResponse{}, f.register(false, registration{name: in.Name, key: in.Key, size: int64(in.ByteSize)})
		}),
		method("SystemSharedMemoryUnregister", func(_ context.Context, in *wire.SystemSharedMemoryUnregisterRequest) (*wire.SystemSharedMemoryUnregisterResponse, error) {
			f.unregister(false, in.Name)
			return &wire.SystemSharedMemoryUnregisterResponse{}, nil
		}),
		method("SystemSharedMemoryStatus", func(_ context.Context, in *wire.SystemSharedMemoryStatusRequest) (*wire.SystemSharedMemoryStatusResponse, error) {
			return &wire.SystemSharedMemoryStatusResponse{Regions: map[string]*wire.SystemSharedMemoryStatusResponse_RegionStatus{in.Name: {Name: in.Name}}}, f.has(false, in.Name)
		}),
		method("CudaSharedMemoryRegister", func(_ context.Context, in *wire.CudaSharedMemoryRegisterRequest) (*wire.CudaSharedMemoryRegisterResponse, error) {
			return &wire.CudaSharedMemoryRegisterResponse{}, f.register(true, registration{name: in.Name, handle: in.RawHandle, device: in.DeviceId, size: int64(in.ByteSize)})
		}),
		method("CudaSharedMemoryUnregister", func(_ context.Context, in *wire.CudaSharedMemoryUnregisterRequest) (*wire.CudaSharedMemoryUnregisterResponse, error) {
			f.unregister(true, in.Name)
			return &wire.CudaSharedMemoryUnregisterResponse{}, nil
		}),
		method("CudaSharedMemoryStatus", func(_ context.Context, in *wire.CudaSharedMemoryStatusRequest) (*wire.CudaSharedMemoryStatusResponse, error) {
			return &wire.CudaSharedMemoryStatusResponse{Regions: map[string]*wire.CudaSharedMemoryStatusResponse_RegionStatus{in.Name: {Name: in.Name}}}, f.has(true, in.Name)
		}),
		method("ModelInfer", f.inferGRPC),
	}}, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	stop = sync.OnceFunc(func() {
		s.Stop()
		<-done
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

func (f *fakeServer) inferGRPC(ctx context.Context, in *wire.ModelInferRequest) (*wire.ModelInferResponse, error) {
	var inputs []fakeTensor
	var at []*place
	raw := in.RawInputContents
	for _, x := range in.Inputs {
		y := fakeTensor{name: x.Name, datatype: x.Datatype, shape: x.Shape}
		p := placeOf(x.Parameters)
		if p == nil {
			if len(raw) == 0 {
				return nil, status.Errorf(codes.InvalidArgument, "no contents for input '%s'", x.Name)
			}
			y.raw, raw = raw[0], raw[1:]
		}
		inputs, at = append(inputs, y), append(at, p)
	}
	if len(raw) != 0 {
		return nil, status.Error(codes.InvalidArgument, "more contents than inputs")
	}
	var outputs []fakeOutput
	for _, x := range in.Outputs {
		outputs = append(outputs, fakeOutput{x.Name, placeOf(x.Parameters)})
	}
	results, _, err := f.infer(ctx, in.ModelName, inputs, at, outputs)
	if err != nil {
		return nil, err
	}
	out := &wire.ModelInferResponse{ModelName: in.ModelName, ModelVersion: "1", Id: in.Id}
	for _, x := range results {
		out.Outputs = append(out.Outputs, &wire.ModelInferResponse_InferOutputTensor{Name: x.name, Datatype: x.datatype, Shape: x.shape})
		out.RawOutputContents = append(out.RawOutputContents, x.raw)
	}
	if f.change != nil {
		f.change(out)
	}
	return out, nil
}

// serveHTTP starts the server, and returns its URL.
func (f *fakeServer) serveHTTP(t testing.TB) (url string) {
	t.Helper()
	answer := func(w http.ResponseWriter, out any, err error) {
		if err == nil {
			if out != nil {
				_ = json.NewEncoder(w).Encode(out)
			}
			return
		}
		s, _ := status.FromError(err)
		code := http.StatusBadRequest
		switch s.Code() {
		case codes.NotFound:
			code = http.StatusNotFound
		case codes.Internal:
			code = http.StatusInternalServerError
		}
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": s.Message()})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/health/ready", func(w http.ResponseWriter, _ *http.Request) {
		if f.notReady {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	mux.HandleFunc("GET /v2/models/{model}/ready", func(w http.ResponseWriter, r *http.Request) {
		if f.models[r.PathValue("model")] == nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	mux.HandleFunc("GET /v2/models/{model}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"name": r.PathValue("model"), "platform": "fake", "versions": []string{"1"}, "inputs": []TensorInfo{{"IN", "FP32", []int64{-1}}}}, nil)
	})
	for kind, cuda := range map[string]bool{"system": false, "cuda": true} {
		base := "/v2/" + kind + "sharedmemory/region/{name}/"
		mux.HandleFunc("POST "+base+"register", func(w http.ResponseWriter, r *http.Request) {
			var in struct {
				Key    string `json:"key"`
				Size   int64  `json:"byte_size"`
				Device int64  `json:"device_id"`
				Handle struct {
					B64 []byte `json:"b64"`
				} `json:"raw_handle"`
			}
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				answer(w, nil, status.Error(codes.InvalidArgument, err.Error()))
				return
			}
			answer(w, nil, f.register(cuda, registration{name: r.PathValue("name"), key: in.Key, size: in.Size, handle: in.Handle.B64, device: in.Device}))
		})
		mux.HandleFunc("POST "+base+"unregister", func(_ http.ResponseWriter, r *http.Request) { f.unregister(cuda, r.PathValue("name")) })
		mux.HandleFunc("GET "+base+"status", func(w http.ResponseWriter, r *http.Request) {
			answer(w, []map[string]string{{"name": r.PathValue("name")}}, f.has(cuda, r.PathValue("name")))
		})
	}
	run := func(w http.ResponseWriter, r *http.Request) {
		out, raw, err := f.inferHTTP(r)
		if err != nil {
			answer(w, nil, err)
			return
		}
		text, _ := json.Marshal(out)
		if len(raw) > 0 {
			w.Header().Set(lengthHeader, strconv.Itoa(len(text)))
		}
		_, _ = w.Write(text)
		for _, p := range raw {
			_, _ = w.Write(p)
		}
	}
	mux.HandleFunc("POST /v2/models/{model}/infer", run)
	mux.HandleFunc("POST /v2/models/{model}/versions/{version}/infer", run)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func (f *fakeServer) inferHTTP(r *http.Request) (any, [][]byte, error) {
	invalid := func(err error) (any, [][]byte, error) {
		return nil, nil, status.Error(codes.InvalidArgument, err.Error())
	}
	length, err := strconv.Atoi(r.Header.Get(lengthHeader))
	if err != nil {
		return invalid(err)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r.Body, text); err != nil {
		return invalid(err)
	}
	var in struct {
		Inputs, Outputs []jsonTensor
		Parameters      map[string]bool
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return invalid(err)
	}
	placeOf := func(p jsonParameters) *place {
		if p.Region == "" {
			return nil
		}
		return &place{p.Region, p.Offset, *p.Size}
	}
	var inputs []fakeTensor
	var at []*place
	for _, x := range in.Inputs {
		y := fakeTensor{name: x.Name, datatype: x.Datatype, shape: x.Shape}
		if x.Parameters.Raw != nil {
			y.raw = make([]byte, *x.Parameters.Raw)
			if _, err := io.ReadFull(r.Body, y.raw); err != nil {
				return invalid(err)
			}
		}
		inputs, at = append(inputs, y), append(at, placeOf(x.Parameters))
	}
	if rest, err := io.ReadAll(r.Body); err != nil || len(rest) > 0 {
		return invalid(fmt.Errorf("%d more bytes: %w", len(rest), err))
	}
	var outputs []fakeOutput
	for _, x := range in.Outputs {
		outputs = append(outputs, fakeOutput{x.Name, placeOf(x.Parameters)})
	}
	results, inRegion, err := f.infer(r.Context(), r.PathValue("model"), inputs, at, outputs)
	if err != nil {
		return nil, nil, err
	}
	var raw [][]byte
	var list []jsonTensor
	for i, x := range results {
		y := jsonTensor{Name: x.name, Datatype: x.datatype, Shape: x.shape}
		if !inRegion[i] {
			size := int64(len(x.raw))
			y.Parameters.Raw = &size
			raw = append(raw, x.raw)
		}
		list = append(list, y)
	}
	return map[string]any{"model_name": r.PathValue("model"), "model_version": "1", "outputs": list}, raw, nil
}
