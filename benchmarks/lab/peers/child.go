package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/dlx-go/dlx/internal/strictjson"
)

// child is a process that measures a peer, one sample at a time, and sleeps in between. It reads requests line by line
// and answers each by a line of JSON. Its first line is a greeting. start's caller closes it.
type child struct {
	command  *exec.Cmd
	stdin    io.WriteCloser
	out      *bufio.Scanner
	greeting answer
}

// answer is a line from the process.
type answer struct {
	Version string        `json:"version"` // in the greeting
	NumPy   string        `json:"numpy"`   // in the greeting of benchmarks/numpy_sampler.py
	Device  string        `json:"device"`  // in the greeting, of what has devices
	Time    time.Duration `json:"ns"`
	Error   string        `json:"error"`
}

// parseAnswer reads a line strictly.
func parseAnswer(line []byte) (answer, error) {
	var a answer
	if err := strictjson.UnmarshalKnown(line, &a); err != nil {
		return answer{}, fmt.Errorf("the process answers %q, which is not understood: %w", line, err)
	}
	if what, ok := strings.CutPrefix(a.Error, "not supported: "); ok {
		return answer{}, notSupported("%s", what)
	}
	if a.Error != "" {
		return answer{}, errors.New(a.Error)
	}
	return a, nil
}

// start starts the process and waits for its greeting.
func start(ctx context.Context, name string, args ...string) (*child, error) {
	return startWith(ctx, nil, name, args...)
}

// startWith is start with further variables of the environment.
func startWith(ctx context.Context, env []string, name string, args ...string) (*child, error) {
	c := &child{command: exec.CommandContext(ctx, name, args...)}
	c.command.Env = append(c.command.Environ(), env...)
	stdout, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.stdin, err = c.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(stdout)
	if c.greeting, err = c.receive(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *child) receive() (answer, error) {
	if !c.out.Scan() {
		return answer{}, errors.Join(fmt.Errorf("the process %s gave no answer", c.command.Path), c.out.Err())
	}
	return parseAnswer(c.out.Bytes())
}

// line sends a line as it is, and returns the answer.
func (c *child) line(format string, args ...any) (answer, error) {
	if _, err := fmt.Fprintf(c.stdin, format+"\n", args...); err != nil {
		return answer{}, fmt.Errorf("the process %s has ended: %w", c.command.Path, err)
	}
	return c.receive()
}

// ask sends a request as JSON, and returns the answer.
func (c *child) ask(request any) (answer, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return answer{}, err
	}
	return c.line("%s", text)
}

// close ends the process and waits for that. It does nothing for a nil child.
func (c *child) close() {
	if c == nil {
		return
	}
	_ = c.stdin.Close() // it ends at the end of its input
	_ = c.command.Wait()
}

// output runs a command and returns what it prints to its standard output. An error has the end of its standard error.
func output(ctx context.Context, env []string, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(command.Environ(), env...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, lastLine(stderr.String(), string(out)))
	}
	return string(out), nil
}

// lastLine returns the last line of the first text that has one.
func lastLine(texts ...string) string {
	for _, text := range texts {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if last := lines[len(lines)-1]; last != "" {
			return last
		}
	}
	return "it printed nothing"
}

// find returns the path of a command, or says how it is installed.
func find(name, debian string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	why := "Debian's package " + debian + " has it, and scripts/peers.sh installs it as root"
	if debian == "" {
		why = "no registry that this project uses has it"
	}
	return "", notInstalled("%s is not on the PATH: %s", name, why)
}

// commandLine is the line as a shell would take it.
func commandLine(env []string, name string, args ...string) string {
	words := append(append([]string{}, env...), name)
	for _, arg := range args {
		if strings.ContainsAny(arg, " \"'$") {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}
