//go:build unix

package benchmarks

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/dlx-go/dlx/internal/strictjson"
)

// The descriptor of a worker's results is the first after those that every process has. The variable says that it is there:
// in other processes the runtime may use that descriptor.
const (
	resultsDescriptor = 3
	resultsVariable   = "DLX_BENCH_RESULTS"
)

// WorkerOutput returns where [Serve] writes its results in a process that [Options.Worker] has started. Standard output is
// not that, since drivers print to it.
func WorkerOutput() (*os.File, error) {
	if os.Getenv(resultsVariable) == "" {
		return nil, errors.New("the process was not started by a benchmark that reads its results")
	}
	syscall.CloseOnExec(resultsDescriptor) // a process that this one starts must not keep it open
	return os.NewFile(resultsDescriptor, "results"), os.Unsetenv(resultsVariable)
}

// startWorker starts a process. It has a process group of its own: a Ctrl-C is for the process that waits for results.
func startWorker(ctx context.Context, command func(context.Context) *exec.Cmd) (*worker, error) {
	jobs, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer jobs.Close()
	stdout, results, err := os.Pipe()
	if err != nil {
		_ = stdin.Close()
		return nil, err
	}
	defer results.Close()
	w := &worker{cmd: command(ctx), jobs: stdin, results: stdout, stderr: new(tail), answers: make(chan done)}
	w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr = jobs, nil, w.stderr
	w.cmd.Env = append(w.cmd.Environ(), resultsVariable+"=yes")
	w.cmd.ExtraFiles = []*os.File{results}
	w.cmd.WaitDelay = endsWithin // processes that it has started may hold its standard error
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	w.cmd.Cancel = func() error {
		if err := syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	if err := w.cmd.Start(); err != nil {
		_ = stdin.Close()
		_ = stdout.Close()
		return nil, err
	}
	go func() {
		defer close(w.answers)
		limited := &io.LimitedReader{R: stdout}
		for read := strictjson.NewDecoder(limited); ; {
			var d done
			limited.N = longestAnswer
			if w.wrong = read.Decode(&d); w.wrong != nil { // the end, as a rule
				return
			}
			w.answers <- d
		}
	}()
	return w, nil
}
