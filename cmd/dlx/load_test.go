package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/cmd/dlx/internal/wraptest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
	"github.com/dlx-go/dlx/tensorfile"
)

func TestLoadReportsWhatItRead(t *testing.T) {
	for _, to := range []string{"cpu", "ext_dev:1"} {
		for _, flags := range [][]string{nil, {"--read", "map"}, {"--read", "direct"}, {"--dtype", "float16"}, {"--slice", "0:1/2", "--writable"}, {"--slice", "pix*=1:1/2", "--only", "pix*"}} {
			for _, file := range []string{tensors, archive, digits} {
				if slices.Contains(flags, "pix*") && file != tensors {
					continue
				}
				o := dlx(t, append([]string{"load", file, "--to", to, "--verify", "--json"}, flags...)...)
				if o.code != exitOK {
					if strings.Contains(o.stderr, "it has 0 axes") || strings.Contains(o.stderr, "no tensor matches") {
						continue
					}
					t.Errorf("%s, %s, %v: exit code %d: %s", file, to, flags, o.code, o.stderr)
					continue
				}
				r := decode[loadResult](t, o, "load")
				if f := r.Report.Files[0]; f.Wanted != r.Report.Bytes || f.Wanted > f.Bytes {
					t.Errorf("%s, %v: %d bytes were loaded; %+v", file, flags, r.Report.Bytes, f)
				}
				if !*r.Verified || len(r.Runs) != 1 || r.Report.Device.String() != to || r.Report.Bytes <= 0 || r.Median <= 0 || r.Report.Tensors == 0 || r.Report.Files[0].Reason == "" {
					t.Errorf("%+v", r)
				}
			}
		}
	}
}

// The index says which of two files with a tensor of the same name has the one to load.
func TestLoadVerifiesTheFileThatTheIndexNames(t *testing.T) {
	folder := t.TempDir()
	for i, file := range []string{"a.safetensors", "b.safetensors"} {
		x, err := core.FromSlice([]float32{float32(i)})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		if err := tensorfile.WriteFile(t.Context(), filepath.Join(folder, file), []tensorfile.Named{{Name: "x", Tensor: x}, {Name: file, Tensor: x}}, tensorfile.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	index := filepath.Join(folder, "m.safetensors.index.json")
	if err := os.WriteFile(index, []byte(`{"weight_map":{"x":"b.safetensors","a.safetensors":"a.safetensors"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"cpu", "ext_dev:1"} {
		o := dlx(t, "load", index, "--to", to, "--verify", "--json")
		if o.code != exitOK {
			t.Errorf("%s: exit code %d: %s", to, o.code, o.stderr)
		}
	}
}

// The error for a file of an index that is missing or was cut short has the names of both.
func TestLoadNamesTheIndexOfABadFile(t *testing.T) {
	folder := t.TempDir()
	index, shard := filepath.Join(folder, "m.safetensors.index.json"), filepath.Join(folder, "a.safetensors")
	if err := os.WriteFile(index, []byte(`{"weight_map":{"mean":"a.safetensors"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(tensors)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"no such file", "it has 5000 bytes and should have " + strconv.Itoa(len(content))} {
		o := dlx(t, "load", index, "--to", "cpu", "--json")
		var failure *errorResult
		decodeBoth[loadResult](t, o, "load", &failure)
		for _, want := range []string{want, "a file that the index " + strconv.Quote(index) + " names", shard} {
			if o.code != exitFailed || failure == nil || !strings.Contains(failure.Message, want) {
				t.Errorf("exit code %d, %+v: want %q", o.code, failure, want)
			}
		}
		if err := os.WriteFile(shard, content[:5000], 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoadText(t *testing.T) {
	o := dlx(t, "load", tensors, "--to", "cpu", "--checksum", "--repeat", "3", "--verify", "--read", "map")
	for _, want := range []string{"TENSOR ", "CHECKSUM", "RUN ", "GB/S", "REASON", "as asked for", "verified: yes"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("%q is missing in\n%s", want, o.stdout)
		}
	}
	if o.code != exitOK {
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
}

func TestLoadFlags(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		text string
	}{
		{"load", exitUsage, "accepts 1 arg"},
		{"load x.npy", exitUsage, `required flag(s) "to"`},
		{"load x.npy --to gpu", exitUsage, "gpu"},
		{"load x.npy --to cpu,cpu", exitUsage, "must be one device"},
		{"load x.npy --to cpu --read fast", exitUsage, "must be auto, map, direct, cufile"},
		{"load " + tensors + " --to cpu --read cufile", exitFailed, "cpu cannot read files into its memory: read by auto, map or direct"},
		{"load x.npy --to cpu --slice 1/2", exitUsage, "must be [GLOB=]AXIS:I/N"},
		{"load x.npy --to cpu --slice 0:2/2", exitUsage, "must be [GLOB=]AXIS:I/N"},
		{"load x.npy --to cpu --budget 1k", exitUsage, "must be at least 128KiB"},
		{"load x.npy --to cpu --threads 1000", exitUsage, "at most 256"},
		{"load x.npy --to cpu --repeat 0", exitUsage, "must be at least 1"},
		{"load x.npy --to cpu --checksum=md5", exitUsage, "must be crc32c, sha256"},
		{"load x.npy --to cpu", exitFailed, "x.npy"},
		{"load " + tensors + " --to cpu --only nosuch*", exitFailed, `nosuch*`},
		{"load " + tensors + " --to cuda:0", exitFailed, "cuda"},
		{"load " + tensors + " --to ext_dev:9", exitFailed, "ext_dev:9"},
	} {
		if o := dlx(t, strings.Fields(c.args)...); o.code != c.code || !strings.Contains(o.stderr, c.text) {
			t.Errorf("%s: exit code %d, want %d about %q: %s", c.args, o.code, c.code, c.text, o.stderr)
		}
	}
}

// What was not compared is neither equal nor different.
func TestLoadThatCouldNotCompareSaysNothingOfIt(t *testing.T) {
	simulated := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf})
	failing := wraptest.Backend{Backend: simulated, ToHost: core.Errorf(core.ErrDeviceLost, "ext_dev", "Copy", "it is gone")}
	o := dlxWith(t, t.Context(), []core.Backend{cpu.New(), failing}, "load", tensors, "--to", "ext_dev:0", "--verify", "--json")
	var failure *errorResult
	r := decodeBoth[loadResult](t, o, "load", &failure)
	if o.code != exitFailed || failure == nil || !strings.Contains(o.stderr, "it is gone") || r.Verified != nil {
		t.Errorf("exit code %d, %+v, %v", o.code, failure, r.Verified)
	}
}

func TestSlicesAreFlags(t *testing.T) {
	var f sliceFlags
	for _, text := range []string{"1:2/8", "a=b*=0:0/1"} {
		if err := f.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	want := []tensorfile.Slice{{Axis: 1, Index: 2, Count: 8}, {Name: "a=b*", Axis: 0, Index: 0, Count: 1}}
	if !slices.Equal(f, want) || f.String() != "1:2/8 a=b*=0:0/1" {
		t.Errorf("%+v is %q", f, f.String())
	}
}

func TestLoadFindsElementsThatDiffer(t *testing.T) {
	simulated := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf})
	damaging := wraptest.Backend{Backend: simulated, FromHost: func(src *core.Tensor) (*core.Tensor, error) {
		bytes, err := core.Values[uint8](src)
		if err != nil {
			return nil, err
		}
		bytes = slices.Clone(bytes)
		bytes[len(bytes)/2] ^= 1
		return core.FromSlice(bytes, src.Shape()...)
	}}
	o := dlxWith(t, t.Context(), []core.Backend{cpu.New(), damaging}, "load", tensors, "--to", "ext_dev:0", "--verify", "--json")
	var failure *errorResult
	r := decodeBoth[loadResult](t, o, "load", &failure)
	if o.code != exitMismatch || failure == nil || failure.Kind != kindMismatch || r.Verified == nil || *r.Verified {
		t.Errorf("exit code %d, %+v, %+v", o.code, failure, r.Verified)
	}
}
