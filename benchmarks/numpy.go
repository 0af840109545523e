package benchmarks

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/strictjson"
)

//go:embed numpy_sampler.py
var numpyScript string

// FindPython returns the Python interpreter that DLX_PYTHON names, or the one of the virtual environment in
// the working directory, or "" if there is neither.
func FindPython() string {
	if python, ok := os.LookupEnv("DLX_PYTHON"); ok {
		return python
	}
	const python = ".venv/bin/python"
	if _, err := os.Stat(python); err != nil {
		return ""
	}
	return python
}

// numpy is a Python process that measures NumPy, one sample at a time. It is
// started by the first case that wants it.
type numpy struct {
	ctx     context.Context
	python  string
	version string // once it is started
	err     error  // why it could not be started

	command *exec.Cmd
	stdin   io.WriteCloser
	write   *json.Encoder
	read    *strictjson.Decoder
}

// request is one line to the process. Prepare names what the samples after it
// measure, by the same Library; "" asks for a sample.
type request struct {
	Prepare string     `json:"prepare,omitempty"`
	DType   core.DType `json:"dtype,omitzero"`
	Size    int64      `json:"size,omitempty"`    // elements of the memory
	Shape   []int64    `json:"shape,omitempty"`   // of the view in it
	Strides []int64    `json:"strides,omitempty"` // in elements
	Offset  int64      `json:"offset,omitempty"`  // bytes from the memory's start to the view's first element
	Places  int        `json:"places,omitempty"`  // rows of Size bytes, which are copied in turn
	Threads int        `json:"threads,omitempty"` // at most, where the library has several
	Library string     `json:"library,omitempty"`
	N       int        `json:"n,omitempty"` // operations of a sample
}

// answer is one line from the process.
type answer struct {
	NumPy string        `json:"numpy"` // its version, once at the start
	Time  time.Duration `json:"ns"`
	Error string        `json:"error"`
}

// start starts the process, or returns again why that failed.
func (p *numpy) start() error {
	if p.version == "" && p.err == nil {
		p.err = p.launch()
	}
	return p.err
}

func (p *numpy) launch() error {
	if p.python == "" {
		return errors.New("no Python was found: set DLX_PYTHON to an interpreter with NumPy, or use make bench")
	}
	command := exec.CommandContext(p.ctx, p.python, "-c", numpyScript)
	stdout, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if p.stdin, err = command.StdinPipe(); err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	p.command, p.write, p.read = command, json.NewEncoder(p.stdin), strictjson.NewDecoder(stdout)
	hello, err := p.receive()
	p.version = hello.NumPy
	return err
}

// close ends the process, if there is one, and waits for that.
func (p *numpy) close() {
	if p.command != nil {
		_ = p.stdin.Close() // it ends at the end of its input
		_ = p.command.Wait()
	}
}

func (p *numpy) ask(r request) (answer, error) {
	if err := p.write.Encode(r); err != nil {
		return answer{}, fmt.Errorf("the Python process has ended: %w", err)
	}
	return p.receive()
}

func (p *numpy) receive() (answer, error) {
	var a answer
	if err := p.read.Decode(&a); err != nil {
		return answer{}, fmt.Errorf("the Python process gave no answer: %w", err)
	}
	if a.Error != "" {
		return answer{}, errors.New(a.Error)
	}
	return a, nil
}

// pythonBaseline is numpyBaseline for one of several libraries, which are prepared at the same time.
func (e *env) pythonBaseline(name, library string, r request) baseline {
	r.Library = library
	return e.numpyBaseline(name, r)
}

// numpyBaseline prepares NumPy for a case, and frees its arrays at the end.
func (e *env) numpyBaseline(name string, r request) baseline {
	err := e.numpy.start()
	if err == nil {
		_, err = e.numpy.ask(r)
	}
	if err != nil {
		return baseline{name: name, reason: err.Error()}
	}
	e.cleanup(func() { _, _ = e.numpy.ask(request{Prepare: "nothing", Library: r.Library}) }) // what fails is found by the next case
	return baseline{name: name, sample: func(n int) (time.Duration, error) {
		a, err := e.numpy.ask(request{Library: r.Library, N: n})
		return a.Time, err
	}}
}
