package main

import (
	"archive/zip"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// array writes an .npy file with a descr and elements, along one axis of n, and returns its path.
func array(t *testing.T, descr, n string, data ...byte) string {
	t.Helper()
	header := "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + n + ",), }"
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	path := filepath.Join(t.TempDir(), "x.npy")
	if err := os.WriteFile(path, append([]byte("\x93NUMPY\x01\x00\x76\x00"+header), data...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// packed writes an .npz with members that are compressed by methods, named by the number of each, and returns its path.
func packed(t *testing.T, methods ...uint16) string {
	t.Helper()
	content, err := os.ReadFile(array(t, "<i2", "1", 7, 0))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.npz")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(file)
	for _, method := range methods {
		member, err := w.CreateRaw(&zip.FileHeader{
			Name: fmt.Sprintf("m%d.npy", method), Method: method, CRC32: crc32.ChecksumIEEE(content),
			CompressedSize64: uint64(len(content)), UncompressedSize64: uint64(len(content)),
		})
		if err == nil {
			_, err = member.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// An archive of which nothing can be read is a failure, and the result names what was left out and why.
func TestAnArchiveOfWhichNothingCanBeRead(t *testing.T) {
	const bzip2, lzma = 12, 14
	nothing, some := packed(t, bzip2, lzma), packed(t, bzip2, 0)
	out := filepath.Join(t.TempDir(), "x.safetensors")
	names := func(left []leftOut) (names string) {
		for _, l := range left {
			names += l.Member + ": " + l.Reason + "\n"
		}
		return names
	}
	check := func(o outcome, failure *errorResult, left string) {
		t.Helper()
		if o.code != exitFailed || failure == nil || failure.Kind != core.ErrNotSupported.Error() || !strings.Contains(failure.Message, "none of its members can be read (2)") {
			t.Errorf("exit code %d, %+v", o.code, failure)
		}
		for _, want := range []string{"m12: ", "(bzip2)", "m14: ", "(LZMA)"} {
			if !strings.Contains(left, want) {
				t.Errorf("%q is missing in %q", want, left)
			}
		}
	}
	var failure *errorResult
	o := dlx(t, "convert", nothing, out, "--json")
	converted := decodeBoth[convertResult](t, o, "convert", &failure)
	check(o, failure, names(converted.LeftOut))
	if _, err := os.Stat(out); err == nil || converted.Out != "" {
		t.Errorf("%q was written: %v", converted.Out, err)
	}
	o = dlx(t, "move", nothing, "--via", "cpu", "--json")
	moved := decodeBoth[moveResult](t, o, "move", &failure)
	check(o, failure, names(moved.LeftOut))
	for _, flags := range [][]string{nil, {"--verify"}} {
		o = dlx(t, append([]string{"load", nothing, "--to", "cpu", "--json"}, flags...)...)
		loaded := decodeBoth[loadResult](t, o, "load", &failure)
		var left []leftOut
		for _, r := range loaded.Report.Refused {
			left = append(left, leftOut{r.What, r.Reason})
		}
		check(o, failure, names(left))
		if loaded.Verified != nil {
			t.Error("nothing was verified")
		}
	}
	for _, args := range [][]string{{"convert", nothing, out}, {"move", nothing, "--via", "cpu"}} {
		if o := dlx(t, args...); o.code != exitFailed || o.stdout != "" || !strings.Contains(o.stderr, "(LZMA)") {
			t.Errorf("%q: %+v", args, o)
		}
	}
	converted = decode[convertResult](t, dlx(t, "convert", some, out, "--json"), "convert")
	if len(converted.Tensors) != 1 || len(converted.LeftOut) != 1 || converted.LeftOut[0].Member != "m12" || converted.Out != out {
		t.Errorf("%+v", converted)
	}
	if moved := decode[moveResult](t, dlx(t, "move", some, "--via", "cpu", "--json"), "move"); len(moved.Tensors) != 1 || len(moved.LeftOut) != 1 {
		t.Errorf("%+v", moved)
	}
	if loaded := decode[loadResult](t, dlx(t, "load", some, "--to", "cpu", "--verify", "--json"), "load"); !*loaded.Verified || len(loaded.Report.Refused) != 1 {
		t.Errorf("%+v", loaded)
	}
}

// Every command that reads files reads arrays of raw void as the type that is named, and arrays in the other byte order.
func TestRawVoidAndTheOtherByteOrder(t *testing.T) {
	for _, c := range []struct {
		path, dtype, storage string
		flags                []string
		want                 []float64
	}{
		{array(t, "<V2", "2", 0x80, 0x3f, 0, 0xc0), "bfloat16", "in place", []string{"--void-as", "bf16", "--void-as", "float8_e5m2"}, []float64{1, -2}},
		{array(t, "<f1", "2", 0x3c, 0xc0), "float8_e5m2", "in place", []string{"--void-as", "bf16", "--void-as", "float8_e5m2"}, []float64{1, -2}},
		{array(t, "bfloat16", "2", 0x80, 0x3f, 0, 0xc0), "bfloat16", "in place", nil, []float64{1, -2}},
		{array(t, ">f4", "2", 0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0), "float32", "byte-swapped", nil, []float64{1, -2}},
	} {
		run := func(args ...string) outcome { return dlx(t, append(append(args, "--json"), c.flags...)...) }
		listed := decode[inspectResult](t, run("inspect", c.path), "inspect").Tensors[0]
		if listed.DType.String() != c.dtype || listed.storage() != c.storage || listed.Swapped != (c.storage == "byte-swapped") {
			t.Errorf("%+v, storage %s", listed, listed.storage())
		}
		out := filepath.Join(t.TempDir(), "x.safetensors")
		decode[convertResult](t, run("convert", c.path, out, "--dtype", "float32"), "convert")
		if got := floats(t, out, "x"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.dtype, got, c.want)
		}
		for _, to := range []string{"cpu", "ext_dev:1"} {
			loaded := decode[loadResult](t, run("load", c.path, "--to", to, "--verify"), "load")
			if loaded.Verified == nil || !*loaded.Verified || loaded.Report.Tensors != 1 || loaded.Report.Swapped > 0 != listed.Swapped {
				t.Errorf("%s: %+v", to, loaded)
			}
		}
		moved := decode[moveResult](t, run("move", c.path, "--via", "ext_dev:1", "--verify"), "move").Tensors[0]
		if moved.DType.String() != c.dtype || !*moved.Verified || (moved.Load != nil) != listed.Swapped {
			t.Errorf("%+v", moved)
		}
	}
	o := dlx(t, "inspect", array(t, "<V2", "1", 0, 0))
	if o.code != exitFailed || !strings.Contains(o.stderr, "--void-as") {
		t.Errorf("raw void without a type: exit code %d, %s", o.code, o.stderr)
	}
	for _, wrong := range []string{"int4", "none"} {
		if o := dlx(t, "inspect", digits, "--void-as", wrong); o.code != exitUsage {
			t.Errorf("%s: %+v", wrong, o)
		}
	}
	if o := dlx(t, "load", array(t, ">i2", "1", 0, 1), "--to", "cpu"); !strings.Contains(o.stdout, "from the other byte order: 1") {
		t.Error(o.stdout)
	}
}
