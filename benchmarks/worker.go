package benchmarks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/strictjson"
)

// job asks a worker for one block of samples of a case.
type job struct {
	Case string `json:"case"`
	block
}

// done is what a worker answers.
type done struct {
	Result Result `json:"result"`
	NumPy  string `json:"numpy,omitempty"`
	// Metrics are those of the process since its start.
	Metrics core.Metrics `json:"metrics"`
}

// Serve measures cases for another process, see [Options.Worker]: it reads jobs from in and writes results to out until in
// ends. It returns ctx's error, that of reading or writing, or core.ErrInvalid if in or out is nil, or for a case that
// [List] has not returned.
func Serve(ctx context.Context, cases []Case, opts Options, in io.Reader, out io.Writer) error {
	if in == nil || out == nil {
		return core.Errorf(core.ErrInvalid, "benchmarks", "Serve", "in or out is nil")
	}
	if err := checkListed("Serve", cases); err != nil {
		return err
	}
	byName := make(map[string]Case, len(cases))
	for _, c := range cases {
		byName[c.Name] = c
	}
	m := newInProcess(opts)
	defer m.close()
	read, write := strictjson.NewDecoder(in), json.NewEncoder(out)
	for {
		var j job
		if err := read.Decode(&j); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		c, ok := byName[j.Case]
		answer := done{Result: Result{Name: j.Case, Status: Failed, Reason: "the process that measures does not know the case: the devices of this machine have changed"}}
		if ok {
			answer = done{Result: m.measure(ctx, c, j.block), NumPy: m.numpyVersion()}
		}
		answer.Metrics = core.ReadMetrics()
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := write.Encode(answer); err != nil {
			return err
		}
	}
}

// workers measures in other processes: in one until it ends, then in the next.
type workers struct {
	start    func(context.Context) *exec.Cmd
	metrics  func(process int, m core.Metrics) // nil if nobody wants to know
	hangs    time.Duration                     // a case that takes so much longer than its share hangs
	current  *worker
	numpy    string
	hung     int  // how many cases were ended because they hang
	answered bool // it has answered a case
}

// worker is a process that serves.
type worker struct {
	cmd     *exec.Cmd
	jobs    *os.File // its standard input
	results *os.File
	stderr  *tail
	answers chan done // closed when there are no more
	wrong   error     // why there are no more; read it after answers is closed
}

const (
	hangsAfter = time.Minute
	hangsPart  = 20
	mostHangs  = 3 // a program that hangs so often and has never answered is not asked again
	// endsWithin is how long a worker may take to end after its last job.
	endsWithin = 10 * time.Second
	// longestAnswer is far more than a result takes. A program that is not one of dlx may send anything.
	longestAnswer = 64 << 20
)

func (w *workers) numpyVersion() string { return w.numpy }

func (w *workers) measure(ctx context.Context, c Case, b block) Result {
	failed := func(format string, args ...any) Result {
		return *c.notMeasured(Failed, fmt.Sprintf(format, args...))
	}
	if w.hung >= mostHangs && !w.answered {
		return failed("not tried: the process that measures has answered nothing in %d cases before it", w.hung)
	}
	if w.current == nil {
		started, err := startWorker(ctx, w.start)
		if err != nil {
			return failed("the process that measures could not be started: %v", err)
		}
		w.current = started
	}
	most := w.hangs + hangsPart*b.Time
	limit := time.NewTimer(most)
	defer limit.Stop()
	_ = w.current.jobs.SetWriteDeadline(time.Now().Add(most)) // of a pipe; a process may not read its jobs
	err := json.NewEncoder(w.current.jobs).Encode(job{c.Name, b})
	if err == nil {
		select {
		case answer, ok := <-w.current.answers:
			if ok {
				if !answer.Result.answers(c) {
					w.end(0) // its next answer may be for this job
					return failed("the process that measured it answered for another case, or without samples")
				}
				w.numpy, w.answered = answer.NumPy, true
				if w.metrics != nil {
					w.metrics(w.current.cmd.Process.Pid, answer.Metrics)
				}
				return answer.Result
			}
			if wrong := w.current.wrong; !errors.Is(wrong, io.EOF) && !errors.Is(wrong, io.ErrUnexpectedEOF) {
				w.end(0)
				return failed("the process that measured it answered what is not a result: %v", wrong)
			}
		case <-ctx.Done():
			w.end(0)
			return failed("%v", ctx.Err())
		case <-limit.C:
			w.hung++
			w.end(0)
			return failed("it was ended, since it took more than %v", most)
		}
	}
	return failed("the process that measured it ended: %s", w.end(endsWithin))
}

// answers reports whether r is the result of one block of samples of the case.
func (r *Result) answers(c Case) bool {
	switch r.Status {
	case OK:
		n := len(r.Times)
		return r.Name == c.Name && n > 0 && len(r.Blocks) == 1 && r.Blocks[0] == n && (len(r.Fastest) == 0 || len(r.Fastest) == n)
	case Unsupported, Skipped, Failed:
		return r.Name == c.Name
	}
	return false
}

// close ends the current process.
func (w *workers) close() {
	if w.current != nil {
		w.end(endsWithin)
	}
}

// end waits for the current process to end, and kills it, and the processes that it has started, if that takes too long. It returns
// how the process ended.
func (w *workers) end(within time.Duration) string {
	c := w.current
	w.current = nil
	_ = c.jobs.Close()
	kill := time.AfterFunc(within, func() {
		_ = c.cmd.Cancel()
		_ = c.results.SetReadDeadline(time.Now()) // a process that has left the group may hold the other end
	})
	for answers := true; answers; { // until its last one is read
		_, answers = <-c.answers
	}
	err := c.cmd.Wait()
	kill.Stop()
	_ = c.results.Close()
	how := "without an error"
	if err != nil {
		how = err.Error()
	}
	if text := c.stderr.firstLine(); text != "" {
		how += ": " + text
	}
	return how
}

// tail keeps the first bytes that are written to it, which have the reason of a crash, and forgets the rest.
type tail struct{ text bytes.Buffer }

const longestTail = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.text.Write(p[:min(len(p), longestTail-t.text.Len())])
	return len(p), nil
}

// firstLine returns the line that says why a program of Go ended, or else the last line.
func (t *tail) firstLine() string {
	last := ""
	for line := range strings.Lines(t.text.String()) {
		line = strings.TrimSpace(line)
		for _, begin := range []string{"panic: ", "fatal error: ", "SIG", "runtime: "} {
			if strings.HasPrefix(line, begin) {
				return line
			}
		}
		if line != "" {
			last = line
		}
	}
	return last
}
