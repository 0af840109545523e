package main

import (
	"archive/zip"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
)

// oddNames are names of tensors that a terminal, a table or JSON would not carry, and
// such as look like the quoted form of another.
var oddNames = []string{
	"plain", "ä ö", "", "\x9b2J", "\u009b2J", "\xff", "\xfe", "a\xffb\tc", "\x1b[2J", "\u202e", "\ufffd",
	`"\xff"`, `"plain"`, `"`, `"\`, "\x7f", "two\nlines", `back\slash`,
}

// oddArchive writes an .npz in which each tensor holds its own number.
func oddArchive(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "odd\x9b.npz")
	file, err := os.Create(path)
	if err != nil {
		path = filepath.Join(t.TempDir(), "odd.npz") // a system whose names are text
		if file, err = os.Create(path); err != nil {
			t.Fatal(err)
		}
	}
	defer file.Close()
	archive := zip.NewWriter(file)
	for i, name := range oddNames {
		w, err := archive.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		dict := "{'descr': '|u1', 'fortran_order': False, 'shape': (" + strconv.Itoa(i+1) + ",), }"
		dict += strings.Repeat(" ", 117-len(dict)) + "\n"
		content := "\x93NUMPY\x01\x00" + string([]byte{byte(len(dict)), 0}) + dict + strings.Repeat("x", i+1)
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantPrintable fails the test unless a terminal can show all of an output.
func wantPrintable(t *testing.T, what, output string) {
	t.Helper()
	if !utf8.ValidString(output) {
		t.Errorf("%s: not UTF-8: %q", what, output)
	}
	for _, r := range output {
		if r != '\n' && !strconv.IsPrint(r) {
			t.Errorf("%s: %q in %q", what, r, output)
			return
		}
	}
}

func TestOddNamesAreShownApartAndFoundAgain(t *testing.T) {
	path := oddArchive(t)
	text, document := dlx(t, "inspect", path), dlx(t, "inspect", path, "--json")
	wantPrintable(t, "text", text.stdout)
	wantPrintable(t, "JSON", document.stdout)
	r := decode[inspectResult](t, document, "inspect")
	rows := strings.Split(strings.TrimSpace(text.stdout), "\n")
	rows = rows[slices.IndexFunc(rows, func(row string) bool { return strings.HasPrefix(row, "NAME") }):]
	end := strings.Index(rows[0], "DTYPE")
	if len(r.Tensors) != len(oddNames) || len(rows) != len(oddNames)+1 {
		t.Fatalf("%d tensors, %d rows, want %d", len(r.Tensors), len(rows), len(oddNames))
	}
	seen := make(map[string]bool) // by their names in JSON
	for i, real := range oddNames {
		runes := []rune(rows[i+1]) // columns are characters
		for _, shown := range []string{r.Tensors[i].Name, strings.TrimRight(string(runes[:end]), " "), real} {
			o := dlx(t, "move", path, "--via", "cpu", "--json", "--tensor", shown)
			wantPrintable(t, "move", o.stdout)
			if other, err := strconv.Unquote(real); shown == real && err == nil && slices.Contains(oddNames, other) {
				continue // it is how another name is shown; its own shown form finds it
			}
			got := decode[moveResult](t, o, "move").Tensors
			if len(got) != 1 || !slices.Equal(got[0].Shape, []int64{int64(i + 1)}) || got[0].Tensor != r.Tensors[i].Name {
				t.Errorf("%q, shown as %q: %+v; %s", real, shown, got, o.stderr)
			}
		}
		if seen[r.Tensors[i].Name] {
			t.Errorf("%q is the name of two tensors", r.Tensors[i].Name)
		}
		seen[r.Tensors[i].Name] = true
	}
	out := filepath.Join(t.TempDir(), "copy.npz")
	o := dlx(t, "move", path, "--via", "cpu", "--out", out, "--log-level", "debug")
	wantPrintable(t, "move", o.stdout)
	wantPrintable(t, "log", o.stderr)
	again := decode[inspectResult](t, dlx(t, "inspect", out, "--json"), "inspect")
	for _, written := range again.Tensors {
		delete(seen, written.Name)
	}
	if len(again.Tensors) != len(oddNames) || len(seen) > 0 {
		t.Errorf("%d tensors were written of %d, without %v: %s", len(again.Tensors), len(oddNames), seen, o.stderr)
	}
}

// oddDriver is a backend whose driver says what no terminal should get.
type oddDriver struct{ driverless }

const oddText = "card\x9b2J\xff\x1b[2J\u009b\tend"

func (oddDriver) Probe(context.Context) core.Probe {
	return core.Probe{Available: true, Version: oddText, Features: []core.Feature{{Name: oddText, Reason: oddText}}}
}

func (oddDriver) Devices(context.Context) ([]core.Properties, error) {
	return []core.Properties{{ID: core.DeviceID{Type: core.DeviceVulkan}, Name: oddText, Driver: oddText}}, nil
}

func (oddDriver) Open(context.Context, core.DeviceID) (core.Device, error) {
	return nil, core.Errorf(core.ErrDevice, "vulkan", "Open", oddText)
}

func TestWhatDriversSayIsShownEscaped(t *testing.T) {
	backends := []core.Backend{cpu.New(), oddDriver{}}
	for _, args := range [][]string{{"devices"}, {"plan"}, {"plan", "--from", "cpu", "--to", "vulkan"}, {"__complete", "plan", "--from", ""}, {oddText}, {"devices", "--" + oddText}} {
		for _, format := range [][]string{nil, {"--json"}, {"--log-format", "json"}} {
			if args[0] == "__complete" && format != nil {
				continue
			}
			o := dlxWith(t, t.Context(), backends, append(slices.Clone(args), format...)...)
			what := strings.Join(append(args, format...), " ")
			wantPrintable(t, what, strings.ReplaceAll(o.stdout, "\t", " ")) // completions have a tab before their description
			wantPrintable(t, what+", log", o.stderr)
			for _, document := range []string{o.stdout, o.stderr} {
				if strings.HasPrefix(document, "{") && !json.Valid([]byte(document)) {
					t.Errorf("%s: no JSON: %s", what, document)
				}
			}
		}
	}
}
