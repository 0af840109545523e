package triton

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/strictjson"
)

// lengthHeader says how many bytes of a body are JSON. The bytes of tensors follow.
const lengthHeader = "Inference-Header-Content-Length"

// mostJSON bounds the JSON of an answer, in bytes.
const mostJSON = 16 << 20

type httpTransport struct {
	base   string // ends in a slash
	client *http.Client
	limit  int64 // of a message, in bytes
}

var _ transport = (*httpTransport)(nil)

func dialHTTP(base string, o Options) (transport, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, core.Errorf(core.ErrInvalid, backend, "DialHTTP", "the URL %q is not one of a server, such as http://localhost:8000", base)
	}
	client := o.HTTP
	if client == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableCompression = true // tensors hardly shrink
		t.WriteBufferSize, t.ReadBufferSize = 256<<10, 256<<10
		t.MaxIdleConnsPerHost = 64 // connections of concurrent requests are used again
		client = &http.Client{Transport: t}
	}
	return &httpTransport{base: strings.TrimSuffix(u.String(), "/") + "/", client: client, limit: o.MaxMessage}, nil
}

func (h *httpTransport) close() error {
	h.client.CloseIdleConnections()
	return nil
}

// body is the body of a request. Tensors lend their bytes to it until stop returns: package net/http may read a body for
// longer than a call lasts.
type body struct {
	mu     sync.Mutex
	reader io.Reader
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reader == nil {
		return 0, errors.New("the request is over")
	}
	return b.reader.Read(p)
}

func (b *body) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reader = nil
}

// do sends a request with the parts as its body, and calls read with the answer if its status is OK.
func (h *httpTransport) do(ctx context.Context, call, method, path string, header http.Header, parts [][]byte, read func(*http.Response) error) error {
	var size int64
	readers := make([]io.Reader, 0, len(parts))
	for _, p := range parts {
		size += int64(len(p))
		readers = append(readers, bytes.NewReader(p))
	}
	if size > h.limit {
		return core.Errorf(core.ErrOutOfMemory, backend, call, "the message has %d bytes, and Options.MaxMessage is %d", size, h.limit)
	}
	var content io.Reader
	switch len(parts) {
	case 0:
	case 1: // JSON, which package net/http may keep. It is written at once with the header, unlike a body of another type
		content = bytes.NewReader(parts[0])
	default:
		b := &body{reader: io.MultiReader(readers...)}
		defer b.stop()
		content = b
	}
	r, err := http.NewRequestWithContext(ctx, method, h.base+path, content)
	if err != nil {
		return core.Errorf(core.ErrInvalid, backend, call, "%v", err)
	}
	r.ContentLength = size
	for name, values := range header {
		r.Header[name] = values
	}
	answer, err := h.client.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return serverError(call, ErrUnavailable, 0, err.Error())
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		err = h.refusal(call, answer)
	} else if read != nil {
		err = read(answer)
	} else {
		_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, mostJSON)) // so that the connection is used again
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	var typed *core.Error
	if err != nil && !errors.As(err, &typed) {
		return serverError(call, ErrUnavailable, 0, "reading the answer: "+err.Error())
	}
	return err
}

// refusal is the error of an answer.
func (h *httpTransport) refusal(call string, r *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	if err != nil {
		return err
	}
	var said struct {
		Error string `json:"error"`
	}
	if strictjson.Unmarshal(text, &said) != nil || said.Error == "" {
		said.Error = string(text)
	}
	if said.Error == "" {
		said.Error = r.Status
	}
	sentinel := core.ErrInvalid
	switch r.StatusCode {
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		sentinel = ErrUnavailable
	case http.StatusNotImplemented, http.StatusMethodNotAllowed:
		sentinel = core.ErrNotSupported
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusInsufficientStorage:
		sentinel = core.ErrOutOfMemory
	}
	return serverError(call, sentinel, int64(r.StatusCode), said.Error)
}

// isReady asks a path that answers 200 if what it names is ready.
func (h *httpTransport) isReady(ctx context.Context, call, path string) (bool, error) {
	err := h.do(ctx, call, http.MethodGet, path, nil, nil, nil)
	var e *core.Error
	if errors.As(err, &e) && e.Code != 0 { // an answer, such as 400 or 503
		return false, nil
	}
	return err == nil, err
}

func (h *httpTransport) ready(ctx context.Context) (bool, error) {
	return h.isReady(ctx, "ServerReady", "v2/health/ready")
}

func modelPath(model, version string) string {
	path := "v2/models/" + url.PathEscape(model)
	if version != "" {
		path += "/versions/" + url.PathEscape(version)
	}
	return path
}

func (h *httpTransport) modelReady(ctx context.Context, model, version string) (bool, error) {
	return h.isReady(ctx, "ModelReady", modelPath(model, version)+"/ready")
}

// readJSON reads the JSON that a body consists of.
func readJSON(r io.Reader, into any) error {
	text, err := io.ReadAll(io.LimitReader(r, mostJSON+1))
	if err != nil {
		return err
	}
	if len(text) > mostJSON {
		return core.Errorf(core.ErrInvalid, backend, "json", "the answer has more than %d bytes of JSON", mostJSON)
	}
	return parseJSON(text, into)
}

func parseJSON(text []byte, into any) error {
	if err := strictjson.Unmarshal(text, into); err != nil {
		return core.Errorf(core.ErrInvalid, backend, "json", "the answer is not what the protocol says: %v", err)
	}
	return nil
}

func (h *httpTransport) model(ctx context.Context, model, version string) (Model, error) {
	var said struct {
		Name     string       `json:"name"`
		Platform string       `json:"platform"`
		Versions []string     `json:"versions"`
		Inputs   []TensorInfo `json:"inputs"`
		Outputs  []TensorInfo `json:"outputs"`
	}
	err := h.do(ctx, "ModelMetadata", http.MethodGet, modelPath(model, version), nil, nil, func(r *http.Response) error { return readJSON(r.Body, &said) })
	if err != nil {
		return Model{}, err
	}
	return Model{Name: said.Name, Platform: said.Platform, Versions: said.Versions, Inputs: said.Inputs, Outputs: said.Outputs}, nil
}

// jsonTensor is an input, an output that is asked for, or an output of an answer.
type jsonTensor struct {
	Name       string          `json:"name"`
	Datatype   string          `json:"datatype,omitempty"`
	Shape      []int64         `json:"shape,omitempty"`
	Parameters jsonParameters  `json:"parameters"`
	Data       json.RawMessage `json:"data,omitempty"`
}

type jsonParameters struct {
	Region string `json:"shared_memory_region,omitempty"`
	Offset int64  `json:"shared_memory_offset,omitempty"`
	Size   *int64 `json:"shared_memory_byte_size,omitempty"`
	Raw    *int64 `json:"binary_data_size,omitempty"`
	Binary *bool  `json:"binary_data,omitempty"`
}

func (p *place) json() jsonParameters {
	return jsonParameters{Region: p.region, Offset: p.offset, Size: &p.size}
}

func (h *httpTransport) infer(ctx context.Context, r *request) (*answer, error) {
	yes := true
	in := struct {
		ID         string          `json:"id,omitempty"`
		Parameters map[string]bool `json:"parameters,omitempty"`
		Inputs     []jsonTensor    `json:"inputs"`
		Outputs    []jsonTensor    `json:"outputs,omitempty"`
	}{ID: r.id, Inputs: []jsonTensor{}}
	parts := make([][]byte, 1, 1+len(r.inputs))
	for _, x := range r.inputs {
		t := jsonTensor{Name: x.name, Datatype: x.datatype, Shape: x.shape}
		if x.at != nil {
			t.Parameters = x.at.json()
		} else {
			size := int64(len(x.raw))
			t.Parameters.Raw = &size
			parts = append(parts, x.raw)
		}
		in.Inputs = append(in.Inputs, t)
	}
	for _, x := range r.outputs {
		t := jsonTensor{Name: x.name, Parameters: jsonParameters{Binary: &yes}}
		if x.at != nil {
			t.Parameters = x.at.json()
		}
		in.Outputs = append(in.Outputs, t)
	}
	if len(r.outputs) == 0 {
		in.Parameters = map[string]bool{"binary_data_output": true}
	}
	head, err := json.Marshal(in)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, backend, "ModelInfer", "%v", err)
	}
	parts[0] = head
	header := http.Header{lengthHeader: {strconv.Itoa(len(head))}, "Content-Type": {"application/octet-stream"}}
	var a *answer
	err = h.do(ctx, "ModelInfer", http.MethodPost, modelPath(r.model, r.version)+"/infer", header, parts, func(response *http.Response) error {
		var err error
		a, err = readInferBody(response.Body, response.Header.Get(lengthHeader), h.limit)
		return err
	})
	return a, err
}

// readInferBody reads an answer, whose JSON takes length bytes, or all if length is empty. No more than limit bytes of
// tensors are read.
func readInferBody(r io.Reader, length string, limit int64) (*answer, error) {
	const call = "ModelInfer"
	var said struct {
		Model   string       `json:"model_name"`
		Version string       `json:"model_version"`
		Outputs []jsonTensor `json:"outputs"`
	}
	if length == "" {
		if err := readJSON(r, &said); err != nil {
			return nil, err
		}
	} else {
		n, err := strconv.ParseInt(length, 10, 64)
		if err != nil || n < 0 || n > mostJSON {
			return nil, core.Errorf(core.ErrInvalid, backend, call, "%s is %.40q, and should be a number of bytes up to %d", lengthHeader, length, mostJSON)
		}
		text := make([]byte, n)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, cutShort(call, err)
		}
		if err := parseJSON(text, &said); err != nil {
			return nil, err
		}
	}
	a := &answer{model: said.Model, version: said.Version}
	for _, x := range said.Outputs {
		out := received{name: x.Name, datatype: x.Datatype, shape: x.Shape}
		switch { // Triton says nothing of an output in shared memory
		case x.Parameters.Region != "":
			out.at = &place{region: x.Parameters.Region, offset: x.Parameters.Offset, size: -1}
			if x.Parameters.Size != nil {
				out.at.size = *x.Parameters.Size
			}
		case x.Parameters.Raw != nil:
			size := *x.Parameters.Raw
			if size < 0 || size > limit {
				return nil, core.Errorf(core.ErrOutOfMemory, backend, call, "output %.200q has %d bytes; an answer may have %d more: see Options.MaxMessage", x.Name, size, limit)
			}
			limit -= size
			raw, err := readBytes(r, size)
			if err != nil {
				return nil, cutShort(call, err)
			}
			out.raw = raw
		case len(x.Data) > 0:
			return nil, core.Errorf(core.ErrNotSupported, backend, call, "output %.200q came as numbers in JSON, although bytes were asked for", x.Name)
		}
		a.outputs = append(a.outputs, out)
	}
	var rest [1]byte
	if n, err := io.ReadFull(r, rest[:]); n > 0 || err != io.EOF {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "bytes follow the outputs of the answer, or it cannot be read to its end: %v", err)
	}
	return a, nil
}

// readBytes reads size bytes. What a server only says to send takes no memory.
func readBytes(r io.Reader, size int64) ([]byte, error) {
	const step = 16 << 20
	raw := make([]byte, min(size, step))
	for have := int64(0); ; {
		if _, err := io.ReadFull(r, raw[have:]); err != nil {
			return nil, err
		}
		if have = int64(len(raw)); have == size {
			return raw, nil
		}
		grown := make([]byte, min(size, 4*have))
		copy(grown, raw)
		raw = grown
	}
}

// cutShort is the error of an answer that ends too early.
func cutShort(call string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return core.Errorf(core.ErrInvalid, backend, call, "the answer ends before the bytes that it announces")
	}
	return fmt.Errorf("reading the bytes of the outputs: %w", err)
}

// regionPath returns the path of what is done with a region.
func regionPath(cuda bool, name, what string) string {
	kind := "system"
	if cuda {
		kind = "cuda"
	}
	return "v2/" + kind + "sharedmemory/region/" + url.PathEscape(name) + "/" + what
}

func (h *httpTransport) register(ctx context.Context, cuda bool, r registration) error {
	var in any
	if cuda {
		in = map[string]any{"raw_handle": map[string][]byte{"b64": r.handle}, "device_id": r.device, "byte_size": r.size}
	} else {
		in = map[string]any{"key": r.key, "offset": 0, "byte_size": r.size}
	}
	text, err := json.Marshal(in)
	if err != nil {
		return core.Errorf(core.ErrInvalid, backend, "SharedMemoryRegister", "%v", err)
	}
	return h.do(ctx, "SharedMemoryRegister", http.MethodPost, regionPath(cuda, r.name, "register"), nil, [][]byte{text}, nil)
}

func (h *httpTransport) unregister(ctx context.Context, cuda bool, name string) error {
	return h.do(ctx, "SharedMemoryUnregister", http.MethodPost, regionPath(cuda, name, "unregister"), nil, nil, nil)
}

func (h *httpTransport) registered(ctx context.Context, cuda bool, name string) (bool, error) {
	var said []struct {
		Name string `json:"name"`
	}
	err := h.do(ctx, "SharedMemoryStatus", http.MethodGet, regionPath(cuda, name, "status"), nil, nil, func(r *http.Response) error { return readJSON(r.Body, &said) })
	if answeredError(err) { // it names a region that the server has not
		return false, nil
	}
	for _, r := range said {
		if r.Name == name {
			return true, err
		}
	}
	return false, err
}
