package triton

import (
	"context"
	"fmt"
)

// String describes the place for an error.
func (p *place) String() string {
	if p == nil {
		return "no place"
	}
	return fmt.Sprintf("%.200q at %d with %d bytes", p.region, p.offset, p.size)
}

// place is a part of a registered region.
type place struct {
	region       string // its name with the server
	offset, size int64  // in bytes
}

// sent is an input of a request: its bytes, or the place where they lie.
type sent struct {
	name, datatype string
	shape          []int64
	at             *place
	raw            []byte // if at is nil; borrowed from a tensor until the call returns
}

// wanted is an output that a request asks for.
type wanted struct {
	name string
	at   *place // where the server writes it; nil: in the message
}

// request is what a transport sends.
type request struct {
	model, version, id string
	inputs             []sent
	outputs            []wanted // none: all outputs of the model, in the message
}

// received is an output of an answer, as the server describes it. Nothing of it is checked.
type received struct {
	name, datatype string
	shape          []int64
	at             *place // what the server says of a place in shared memory; nil: nothing
	raw            []byte // owned by whoever has the answer; empty if the output is in shared memory
}

// answer is what a transport receives.
type answer struct {
	model, version string
	outputs        []received
}

// registration is a region that the server opens.
type registration struct {
	name   string
	size   int64
	key    string // of memory of the system: what shm_open takes
	handle []byte // of memory of CUDA: a cudaIpcMemHandle_t
	device int64  // of memory of CUDA: the number of the device
}

// transport is a connection with a server. It is safe for concurrent use. Its errors are typed as the package
// documentation says.
type transport interface {
	ready(ctx context.Context) (bool, error)
	modelReady(ctx context.Context, model, version string) (bool, error)
	model(ctx context.Context, model, version string) (Model, error)
	// infer does not use the raw bytes of the request any more when it has returned.
	infer(ctx context.Context, r *request) (*answer, error)
	register(ctx context.Context, cuda bool, r registration) error
	unregister(ctx context.Context, cuda bool, name string) error
	// registered reports whether the server has a region of that name.
	registered(ctx context.Context, cuda bool, name string) (bool, error)
	close() error
}
