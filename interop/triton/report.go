package triton

import (
	"fmt"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// Mechanism is how a tensor travels between this process and the server. A larger Mechanism costs more.
type Mechanism uint8

// The mechanisms. The package documentation describes them. 0 means that the tensor did not travel.
const (
	SharedCUDA Mechanism = iota + 1 // memory of a CUDA device that both processes have open
	Shared                          // memory of the host that both processes have open
	Raw                             // bytes in the message
)

// String returns the name: "cuda_shm", "shm" or "raw".
func (m Mechanism) String() string {
	switch m {
	case SharedCUDA:
		return "cuda_shm"
	case Shared:
		return "shm"
	case Raw:
		return "raw"
	}
	return "none"
}

// MarshalText returns the same text as [Mechanism.String].
func (m Mechanism) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Report says how one tensor travelled.
type Report struct {
	Name      string        `json:"name"`
	Output    bool          `json:"output"` // whether it is an output of the model
	Device    core.DeviceID `json:"device"` // where the input lies, or where the output is now
	Mechanism Mechanism     `json:"mechanism"`
	Bytes     int64         `json:"bytes"` // of the elements
	// BytesCopied is how many bytes this process copied from or to memory of tensors. What gRPC and the kernel copy to send
	// a message is not part of it.
	BytesCopied int64 `json:"bytes_copied"`
	// Reason says why no better way was taken; empty if the tensor travelled by the best one without a copy.
	Reason string `json:"reason,omitempty"`
}

// String describes the report in one line.
func (r Report) String() string {
	var b strings.Builder
	kind := "input"
	if r.Output {
		kind = "output"
	}
	fmt.Fprintf(&b, "%s %q on %v: %v, %d bytes, %d copied", kind, r.Name, r.Device, r.Mechanism, r.Bytes, r.BytesCopied)
	if r.Reason != "" {
		b.WriteString("; " + r.Reason)
	}
	return b.String()
}

// Result is the answer of a model.
type Result struct {
	Model, Version string                  // which answered, as the server says
	Outputs        map[string]*core.Tensor // by name; Close closes them
	Reports        []Report                // of the inputs, then of the outputs, each by name
	Repeated       bool                    // the request was sent twice: see [Client.Infer]
}

// Take returns an output that the caller closes: Close of the result leaves it open. It returns nil if there is no such output.
func (r *Result) Take(name string) *core.Tensor {
	if r == nil {
		return nil
	}
	t := r.Outputs[name]
	delete(r.Outputs, name)
	return t
}

// Close closes all outputs. Closing again, or closing nil, does nothing. Close always returns nil.
func (r *Result) Close() error {
	if r == nil {
		return nil
	}
	for _, t := range r.Outputs {
		t.Close()
	}
	return nil
}
