package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// programVariable makes the test binary the program itself, for tests in which the program starts
// itself again.
const programVariable = "DLX_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
	}
	coretest.Main(m)
}

const (
	digits  = "../../testdata/digits.npy"
	archive = "../../testdata/digits.npz"
	tensors = "../../testdata/digits.safetensors"
)

// outcome is what a run of the program left.
type outcome struct {
	code           int
	stdout, stderr string
}

// dlx runs the program with the CPU, two simulated devices that the host cannot
// reach, and a backend without a driver.
func dlx(t *testing.T, args ...string) outcome {
	t.Helper()
	simulated := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf})
	return dlxWith(t, t.Context(), []core.Backend{cpu.New(), simulated, driverless{}}, args...)
}

func dlxWith(t *testing.T, ctx context.Context, backends []core.Backend, args ...string) outcome {
	t.Helper()
	return dlxReading(t, ctx, strings.NewReader(""), backends, args...)
}

// dlxReading is dlxWith with a standard input.
func dlxReading(t *testing.T, ctx context.Context, stdin io.Reader, backends []core.Backend, args ...string) outcome {
	t.Helper()
	registry := new(core.Registry)
	for _, b := range backends {
		if err := registry.Register(b); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	code := run(ctx, registry, args, stdin, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// driverless is a backend whose driver is missing.
type driverless struct{}

const whyDriverless = "libvulkan.so.1 was not found"

func (driverless) Name() string { return core.DeviceVulkan.BackendName() }

func (driverless) Probe(context.Context) core.Probe { return core.Probe{Reason: whyDriverless} }

func (driverless) Devices(context.Context) ([]core.Properties, error) {
	return nil, core.Errorf(core.ErrNotSupported, "vulkan", "Devices", whyDriverless)
}

func (driverless) Open(context.Context, core.DeviceID) (core.Device, error) {
	return nil, core.Errorf(core.ErrNotSupported, "vulkan", "Open", whyDriverless)
}

// decode reads the result in the document on standard output, which must be the only
// thing there and have no field that T does not name. It has an error if the program failed.
func decode[T any](t *testing.T, o outcome, command string) T {
	t.Helper()
	var failure *errorResult
	return decodeBoth[T](t, o, command, &failure)
}

// decodeBoth is decode that gives the error, too.
func decodeBoth[T any](t *testing.T, o outcome, command string, failure **errorResult) T {
	t.Helper()
	var doc struct {
		Schema  string       `json:"schema"`
		Command string       `json:"command"`
		Result  T            `json:"result"`
		Error   *errorResult `json:"error"`
	}
	d := json.NewDecoder(strings.NewReader(o.stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		t.Fatalf("%v\nexit code %d, stdout:\n%s\nstderr:\n%s", err, o.code, o.stdout, o.stderr)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Errorf("after the document comes %v", err)
	}
	if doc.Schema != "dlx/1" || doc.Command != command {
		t.Errorf("schema %q, command %q", doc.Schema, doc.Command)
	}
	if (doc.Error != nil) != (o.code != exitOK) {
		t.Errorf("exit code %d with the error %+v", o.code, doc.Error)
	}
	*failure = doc.Error
	return doc.Result
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args   string
		code   int
		stderr string // a part of it
	}{
		{"version", exitOK, ""},
		{"--version", exitOK, ""},
		{"devices", exitOK, ""},
		{"plan", exitOK, ""},
		{"plan --from cpu --to ext_dev:1", exitOK, ""},
		{"plan --bytes 0", exitOK, ""},
		{"--help", exitOK, ""},
		{"move --help", exitOK, ""},
		{"", exitOK, ""},
		{"help move", exitOK, ""},
		{"completion", exitOK, ""},
		{"completion bash", exitOK, ""},
		{"inspect " + digits, exitOK, ""},
		{"move --via cpu " + digits, exitOK, ""},
		{"bench --list", exitOK, ""},
		{"bench -t core/slice -i 1 --max-time 1us", exitOK, ""},

		{"inspect nosuch.npy", exitFailed, "nosuch.npy"},
		{"inspect " + dir, exitFailed, "has no file named *.safetensors.index.json or *.safetensors"},
		{"move nosuch.npy --via cpu", exitFailed, "nosuch.npy"},
		{"move " + digits + " --via cuda:0", exitFailed, "cuda"},
		{"move " + digits + " --via ext_dev:7", exitFailed, "ext_dev:7"},
		{"move " + digits + " --via vulkan", exitFailed, whyDriverless},
		{"move " + digits + " --via cpu --tensor nosuch", exitFailed, "nosuch"},
		{"move " + archive + " --via ext_dev:0 --tensor first --copy never", exitFailed, "it copies, and Options.Copy is never"},
		{"move " + digits + " --via gl", exitFailed, "-tags gl"},
		{"plan --from cpu --to opencl:0", exitFailed, "-tags opencl"},
		{"plan --to ext_dev:7", exitFailed, "ext_dev:7"},
		{"plan --from vulkan", exitFailed, whyDriverless},
		{"move " + digits + " --via cpu --out " + dir + "/nosuch/x.npy", exitFailed, "x.npy"},
		{"move " + archive + " --via cpu --out " + dir + "/x.npy", exitFailed, "npy"},
		{"bench --compare nosuch.json", exitFailed, "nosuch.json"},
		{"bench --compare " + digits, exitFailed, "is not a report"},

		{"nosuch", exitUsage, "nosuch"},
		{"inspct", exitUsage, `unknown command "inspct" for "dlx" Did you mean this? inspect; see dlx --help`},
		{"help nosuch", exitUsage, "nosuch"},
		{"completion tcsh", exitUsage, "tcsh"},
		{"version --nosuch", exitUsage, "nosuch"},
		{"devices --version", exitUsage, "unknown flag: --version"},
		{"version what", exitUsage, "what"},
		{"inspect", exitUsage, "requires at least 1 arg"},
		{"inspect - " + digits + " -", exitUsage, "- stands for standard input, which can be read once"},
		{"devices --log-level loud", exitUsage, "must be debug, info, warn, error"},
		{"devices --log-format xml", exitUsage, "must be console, json"},
		{"move " + digits, exitUsage, "via"},
		{"plan what", exitUsage, "what"},
		{"plan --from gpu", exitUsage, `"gpu"`},
		{"plan --bytes -1", exitUsage, "at least 0"},
		{"plan --bytes 1XB", exitUsage, "is not a size; examples"},
		{"plan --bytes 16EiB", exitUsage, "more than 9223372036854775807 bytes"},
		{"plan --memory all", exitUsage, "must be any, plain, host_visible, export"},
		{"move --via cpu", exitUsage, "accepts 1 arg"},
		{"move " + digits + " --via gpu", exitUsage, `"gpu"`},
		{"move " + digits + " --via cpu,", exitUsage, `""`},
		{"move " + digits + " --via cpu:x", exitUsage, "cpu:x"},
		{"move " + digits + " --via cpu --copy maybe", exitUsage, "must be never, if_needed, always"},
		{"move " + digits + " --via cpu --repeat 0", exitUsage, "at least 1"},
		{"move " + digits + " --via cpu --repeat 1000001", exitUsage, "at most 1000000"},
		{"move " + digits + " --via cpu --repeat many", exitUsage, "many"},
		{"move " + digits + " --via cpu --out x.txt", exitUsage, ".safetensors"},
		{"convert " + digits, exitUsage, "accepts 2 arg"},
		{"convert " + digits + " x.txt", exitUsage, ".safetensors"},
		{"convert " + digits + " x.npy --dtype float33x", exitUsage, `"float33x" is not an element type`},
		{"convert nosuch.npy " + dir + "/x.npy", exitFailed, "nosuch.npy"},
		{"convert " + digits + " " + dir + "/nosuch/x.npy", exitFailed, "x.npy"},
		{"convert " + archive + " " + dir + "/x.npy", exitFailed, "an .npy holds exactly one"},
		{"convert " + archive + " " + dir + "/x.npy --tensor nosuch", exitFailed, "nosuch"},
		{"convert " + digits + " " + dir + "/x.npy --dtype bfloat16", exitFailed, "NumPy has no element type bfloat16"},
		{"bench -t nosuch", exitUsage, `"nosuch"`},
		{"bench -i 0", exitUsage, "at least 1"},
		{"bench --max-time 0s", exitUsage, "more than 0"},
		{"bench --max-time soon", exitUsage, "soon"},
		{"bench what", exitUsage, "what"},
	} {
		t.Run(c.args, func(t *testing.T) {
			o := dlx(t, strings.Fields(c.args)...)
			if o.code != c.code || !strings.Contains(o.stderr, c.stderr) {
				t.Errorf("exit code %d, want %d; stderr, which should have %q:\n%s", o.code, c.code, c.stderr, o.stderr)
			}
			if (o.code == exitOK) != (o.stderr == "") {
				t.Errorf("exit code %d with stderr %q", o.code, o.stderr)
			}
			if (o.code == exitOK) != (o.stdout != "") {
				t.Errorf("exit code %d with stdout %q", o.code, o.stdout)
			}
			if c.code == exitUsage && !strings.Contains(o.stderr, "--help") {
				t.Errorf("stderr does not point to help: %s", o.stderr)
			}
		})
	}
}

func TestUsageErrorsNameNoGoFunction(t *testing.T) {
	for args, want := range map[string]string{
		"move x.npy --via cpu,foo": `ERR invalid argument "cpu,foo" for "--via" flag: wrong device: "foo" is not a device type; ` +
			"examples: cpu, cuda, cuda_host, vulkan; see dlx move --help\n",
		"plan --from cpu:x": `ERR invalid argument "cpu:x" for "--from" flag: wrong device: "cpu:x": ` +
			"the index after ':' must be a decimal number from 0 to 2147483647, and there is no such file; see dlx plan --help\n",
		"move x.npy --via cpu --out x.txt": `ERR not supported: extension ".txt": ` +
			"the formats are .npy, .npz and .safetensors; see dlx move --help\n",
	} {
		if o := dlx(t, strings.Fields(args)...); o.code != exitUsage || !strings.HasSuffix(o.stderr, " "+want) {
			t.Errorf("%s: exit code %d, stderr\n%swant\n%s", args, o.code, o.stderr, want)
		}
	}
}

func TestAFileThatCannotBeOpenedIsNamedWithOneReason(t *testing.T) {
	const missing = "nosuch.npy"
	_, reason := os.Stat(missing)
	for _, args := range []string{"inspect " + missing, "move " + missing + " --via cpu", "load " + missing + " --to cpu"} {
		o := dlx(t, strings.Fields(args)...)
		if want := fmt.Sprintf(" failed error=%q\n", reason); o.code != exitFailed || !strings.HasSuffix(o.stderr, want) {
			t.Errorf("%s: exit code %d, stderr %q, want %q at its end", args, o.code, o.stderr, want)
		}
	}
}

// The help of dlx has all exit codes, that of a command those it mentions only.
func TestHelpShowsTheExitCodes(t *testing.T) {
	own := map[string][]string{
		"plan":        {"exit code 1"},
		"move":        {"exit code 2", "exit code 1", "exit code 3"},
		"load":        {"exit code 3"},
		"receive":     {"exit code 3"},
		"doctor":      {"exit code is 1"},
		"bench":       {"exit code 1"},
		"healthcheck": {"exit code is 1", "exit code is 4"},
	}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		t.Run(strings.Join(path, " "), func(t *testing.T) {
			help := dlx(t, append(path, "--help")...).stdout
			if all := strings.HasSuffix(help, exitHelp); all == c.HasParent() {
				t.Errorf("all exit codes: %v:\n%s", all, help)
			}
			for _, code := range own[c.Name()] {
				if !strings.Contains(help, code) {
					t.Errorf("no %q in\n%s", code, help)
				}
			}
			if c.Short == "" {
				t.Error("the command has no description")
			}
		})
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(newRootCommand(&app{stdout: io.Discard, stderr: io.Discard}))
}

// documentedRuns are command lines whose results have every field that there is.
var documentedRuns = []string{
	"devices",
	"plan",
	"plan --from cpu --to ext_dev:1 --memory export",
	"inspect " + tensors,
	"inspect " + archive,
	"inspect " + digits + " " + tensors,
	"move " + digits + " --via cpu,ext_dev:1 --verify --out {dir}/x.npy",
	"move " + archive + " --via cpu",
	"convert " + digits + " {dir}/x.npz --dtype float32",
	"load " + digits + " --to ext_dev:0 --verify --cold --checksum --read direct",
	"bench --list",
	"bench -t copy/contiguous/64KiB -t copy/nhwc-nchw/uint8 -i 1 --max-time 1us --json-file {dir}/bench.json",
	"bench healthcheck -t core/slice -i 1 --max-time 1us",
	"version",
}

func TestEveryFieldOfTheJSONIsDocumented(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, doc, _ := strings.Cut(string(source), "# JSON")
	words := strings.FieldsFunc(doc, func(r rune) bool { return !(r == '_' || r >= 'a' && r <= 'z') })
	var check func(key string, value any)
	check = func(key string, value any) {
		found := false
		for _, w := range words {
			found = found || w == key
		}
		if !found {
			t.Errorf("doc.go does not name %q", key)
		}
		switch v := value.(type) {
		case map[string]any:
			for k, x := range v {
				if key != "metadata" && key != "versions" { // their keys are names of others
					check(k, x)
				}
			}
		case []any:
			for _, x := range v {
				check(key, x)
			}
		}
	}
	for _, line := range documentedRuns {
		o := dlx(t, append(strings.Fields(strings.ReplaceAll(line, "{dir}", t.TempDir())), "--json")...)
		var document map[string]any
		if err := json.Unmarshal([]byte(o.stdout), &document); err != nil {
			t.Fatalf("%s: %v: %s", line, err, o.stderr)
		}
		for k, v := range document {
			check(k, v)
		}
	}
	var failure map[string]any
	if err := json.Unmarshal([]byte(dlx(t, "plan", "--from", "vulkan", "--json").stdout), &failure); err != nil || failure["error"] == nil {
		t.Fatal(err, failure)
	}
	check("error", failure["error"])
}

func TestTheLogIsJSONWhereAskedFor(t *testing.T) {
	o := dlx(t, "move", digits, "--via", "cuda:0", "--log-format", "json", "--log-level", "debug")
	for line := range strings.Lines(o.stderr) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
	if !strings.Contains(o.stderr, `"level":"error"`) {
		t.Errorf("no error in %s", o.stderr)
	}
	for _, line := range []string{"move --log-format json --nosuch", "move --log-format json", "--log-format json inspect - -",
		"--log-format json nosuch", "nosuch --log-format=json", "plan --bytes -1 --log-format json", "devices --nosuch --log-format json"} {
		if o := dlx(t, strings.Fields(line)...); !json.Valid([]byte(o.stderr)) {
			t.Errorf("%s: %s", line, o.stderr)
		}
	}
}

func TestLogLevels(t *testing.T) {
	for level, want := range map[string]bool{"debug": true, "info": false} {
		o := dlx(t, "move", digits, "--via", "cpu", "--log-level", level)
		if got := strings.Contains(o.stderr, "moved"); got != want {
			t.Errorf("level %s: stderr %q", level, o.stderr)
		}
	}
}

func TestAnInterruptEndsTheWork(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := dlxWith(t, ctx, []core.Backend{cpu.New()}, "move", digits, "--via", "cpu")
	if o.code != exitFailed || o.stdout != "" || !strings.Contains(o.stderr, "interrupted") {
		t.Errorf("%+v", o)
	}
}

// full is standard output on a disk without room.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestAResultThatCannotBeWrittenIsAFailure(t *testing.T) {
	for _, line := range []string{"version", "version --json", "inspect " + tensors, "devices --json"} {
		var stderr bytes.Buffer
		code := run(t.Context(), new(core.Registry), strings.Fields(line), strings.NewReader(""), full{}, &stderr)
		if code != exitFailed || !strings.Contains(stderr.String(), errFull.Error()) {
			t.Errorf("%s: exit code %d, stderr %s", line, code, stderr.String())
		}
	}
}

func TestHostileFilesAreFailures(t *testing.T) {
	whole, err := os.ReadFile(digits)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"empty.npy":              "",
		"truncated.npy":          string(whole[:len(whole)/2]),
		"text.npy":               "not an array",
		"lie.npy":                strings.Replace(string(whole), "(1797", "(9797", 1),
		"negative.npy":           strings.Replace(string(whole), "(1797", "(-797", 1),
		"noarchive.npz":          "PK\x03\x04",
		"long.safetensors":       "\xff\xff\xff\xff\xff\xff\xff\x7f{}",
		"outside.safetensors":    "\x40\x00\x00\x00\x00\x00\x00\x00" + `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4000000000]}} `,
		"escape.npy":             "\x1b[31m",
		"nosuchextension.tensor": "anything",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"inspect", path}, {"move", path, "--via", "cpu", "--verify"}, {"load", path, "--to", "cpu"}} {
				o := dlx(t, args...)
				if o.code != exitFailed || o.stdout != "" || o.stderr == "" {
					t.Errorf("%s: %+v", args[0], o)
				}
				if strings.Contains(o.stderr, "\x1b") {
					t.Errorf("the file's escape sequence reaches the terminal: %q", o.stderr)
				}
			}
		})
	}
}

func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"devices", []string{"move", digits, "--via", ""}, []string{"cpu", "ext_dev:0", "ext_dev:1"}},
		{"devices after a comma", []string{"move", digits, "--via", "cpu,"}, []string{"cpu,cpu", "cpu,ext_dev:0", "cpu,ext_dev:1"}},
		{"tensors of the file", []string{"move", archive, "--tensor", ""}, []string{"mean", "first", "target"}},
		{"tensors without a file", []string{"move", "--tensor", ""}, nil},
		{"tensors of a file that is missing", []string{"move", "nosuch.npz", "--tensor", ""}, nil},
		{"kinds of memory", []string{"plan", "--memory", ""}, []string{"any", "plain", "host_visible", "export"}},
		{"words of a choice", []string{"move", "--copy", ""}, []string{"never", "if_needed", "always"}},
		{"log formats", []string{"devices", "--log-format", ""}, []string{"console", "json"}},
		{"files by extension", []string{"inspect", ""}, []string{"json", "npy", "npz", "safetensors"}},
		{"more files", []string{"inspect", "x.npy", ""}, []string{"json", "npy", "npz", "safetensors"}},
		{"the file to convert", []string{"convert", ""}, []string{"json", "npy", "npz", "safetensors"}},
		{"the file to write", []string{"convert", "x.npy", ""}, []string{"npy", "npz", "safetensors"}},
		{"no third file", []string{"convert", "x.npy", "y.npy", ""}, nil},
		{"one file only", []string{"move", "x.npy", "--via", "cpu", ""}, nil},
		{"the file to write, beside the one to read", []string{"move", digits, "--out", ""}, []string{"npy", "npz", "safetensors"}},
		{"the device to load onto", []string{"load", digits, "--to", ""}, []string{"cpu", "ext_dev:0", "ext_dev:1"}},
		{"an index to load", []string{"load", ""}, []string{"--to", "json", "npy", "npz", "safetensors"}},
		{"cases", []string{"bench", "--case", "call/"}, []string{"call/empty"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := dlx(t, append([]string{"__complete"}, c.args...)...)
			var got []string
			for line := range strings.Lines(o.stdout) {
				if offer, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(offer, ":") {
					got = append(got, offer)
				}
			}
			if strings.Join(got, " ") != strings.Join(c.want, " ") {
				t.Errorf("offers %q, want %q", got, c.want)
			}
		})
	}
}
