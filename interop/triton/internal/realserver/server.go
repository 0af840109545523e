//go:build linux

package realserver

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

//go:embed models/*.py
var programs embed.FS

// Model is a model of the server.
type Model struct {
	Name    string
	Program string // a file in the folder models, without .py
	// Config is the configuration after the name and the backend, in the text format of the server.
	Config string
}

// Identity returns a model that returns tensors of one axis, of an element type such as "FP32".
func Identity(datatype string) Model {
	return Model{"identity_" + strings.ToLower(datatype), "identity", vectors([]string{"IN"}, "OUT", datatype)}
}

// Slow is a model like [Identity] for FP32 that takes a second.
func Slow() Model { return Model{"slow", "slow", vectors([]string{"IN"}, "OUT", "FP32")} }

// Add is a model that adds the FP32 vectors A and B.
func Add() Model { return Model{"add", "add", vectors([]string{"A", "B"}, "SUM", "FP32")} }

// Rows is a model that takes batches: the sums of the rows of IN, of FP32.
func Rows() Model {
	return Model{"rows", "rows", `max_batch_size: 8
dynamic_batching { }
input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "SUM" data_type: TYPE_FP32 dims: [ 1 ] } ]
`}
}

// Digits is a model that classifies images of digits with 8 by 8 pixels from 0 to 16. testdata is the folder of that name.
func Digits(testdata string) Model {
	return Model{"digits", "digits", fmt.Sprintf(`max_batch_size: 64
input [ { name: "IMAGE" data_type: TYPE_UINT8 dims: [ 8, 8 ] } ]
output [ { name: "SCORES" data_type: TYPE_FP32 dims: [ 10 ] } ]
parameters { key: "testdata" value: { string_value: %q } }
`, testdata)}
}

func vectors(inputs []string, output, datatype string) string {
	vector := func(name string) string {
		return fmt.Sprintf("{ name: %q data_type: TYPE_%s dims: [ -1 ] }", name, datatype)
	}
	var in []string
	for _, name := range inputs {
		in = append(in, vector(name))
	}
	return fmt.Sprintf("max_batch_size: 0\ninput [ %s ]\noutput [ %s ]\n", strings.Join(in, ", "), vector(output))
}

// Python returns the Python that has the server and its client: DLX_TRITON_PYTHON, or that of .venv-triton in root, which is
// the folder of the module dlx.
func Python(root string) (string, error) {
	path := os.Getenv("DLX_TRITON_PYTHON")
	if path == "" {
		path = filepath.Join(root, ".venv-triton/bin/python")
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no Python with Triton's server: run make .venv-triton/ready, or set DLX_TRITON_PYTHON: %w", err)
	}
	return filepath.Abs(path)
}

// Server is a server of one machine.
type Server struct {
	GRPC, HTTP string // a target, and a URL

	python, folder string
	ports          [2]int

	command *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	log     *buffer
}

// buffer is what the server printed.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// Log returns what the server has printed.
func (s *Server) Log() string {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.text.String()
}

// New returns a server with models, which it writes into an empty folder. Run starts it.
func New(python, folder string, models ...Model) (*Server, error) {
	s := &Server{python: python, folder: folder}
	for _, m := range models {
		program, err := programs.ReadFile("models/" + m.Program + ".py")
		if err != nil {
			return nil, err
		}
		of := filepath.Join(folder, m.Name)
		config := fmt.Sprintf("name: %q\nbackend: \"python\"\ninstance_group [ { kind: KIND_CPU count: 1 } ]\n%s", m.Name, m.Config)
		if err := errors.Join(os.MkdirAll(filepath.Join(of, "1"), 0o755), os.WriteFile(filepath.Join(of, "1", "model.py"), program, 0o644),
			os.WriteFile(filepath.Join(of, "config.pbtxt"), []byte(config), 0o644)); err != nil {
			return nil, err
		}
	}
	for i := range s.ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // both are open until both are known
		s.ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	s.GRPC, s.HTTP = fmt.Sprintf("127.0.0.1:%d", s.ports[0]), fmt.Sprintf("http://127.0.0.1:%d", s.ports[1])
	return s, nil
}

// Run starts the server at its addresses, and returns when it is ready. It also starts it again after Stop and Kill.
func (s *Server) Run(ctx context.Context) error {
	// The folder of the packages, and that of Python's library, which the server loads.
	out, err := exec.CommandContext(ctx, s.python, "-c", `import sysconfig; print(sysconfig.get_path("purelib")); print(sysconfig.get_config_var("LIBDIR"))`).Output()
	if err != nil {
		return fmt.Errorf("asking %s for its folders: %w", s.python, err)
	}
	packages, libraries, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	server := filepath.Join(packages, "pytriton/tritonserver")
	s.log, s.ended = new(buffer), make(chan struct{})
	s.command = exec.Command(filepath.Join(server, "bin/tritonserver"), "--model-repository", s.folder,
		"--backend-directory", filepath.Join(server, "backends"), "--allow-metrics", "false", "--exit-timeout-secs", "1",
		"--grpc-address", "127.0.0.1", "--grpc-port", fmt.Sprint(s.ports[0]), "--http-address", "127.0.0.1", "--http-port", fmt.Sprint(s.ports[1]))
	s.command.Env = append(os.Environ(), "PATH="+filepath.Dir(s.python)+":"+os.Getenv("PATH"), "LD_LIBRARY_PATH="+libraries+":"+os.Getenv("LD_LIBRARY_PATH"))
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with the processes of its models, for Kill
	s.command.Stdout, s.command.Stderr = s.log, s.log
	s.command.WaitDelay = 10 * time.Second // what it started may keep its output open
	if err := s.command.Start(); err != nil {
		return err
	}
	go func() {
		_ = s.command.Wait()
		close(s.ended)
	}()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.HTTP+"/v2/health/ready", nil)
		if err != nil {
			return err
		}
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.ended:
			return fmt.Errorf("the server ended: %s", s.Log())
		case <-ctx.Done():
			s.Kill()
			return fmt.Errorf("the server is not ready: %w: %s", ctx.Err(), s.Log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Alive reports whether the server runs.
func (s *Server) Alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// Ended returns a channel that is closed when the server has ended, after Run.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Stop asks the server to end, and waits for that.
func (s *Server) Stop() {
	if s.command == nil {
		return
	}
	_ = s.command.Process.Signal(os.Interrupt)
	select {
	case <-s.ended:
	case <-time.After(40 * time.Second):
		s.Kill()
	}
}

// Kill ends the server and the processes of its models at once. What they have in /dev/shm stays.
func (s *Server) Kill() {
	_ = syscall.Kill(-s.command.Process.Pid, syscall.SIGKILL)
	<-s.ended
}
