package soak

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutant is a defect that is put into the source, and that random programs must find.
type mutant struct {
	name  string
	edits []edit
	mode  string // in which it is looked for; "" is plain
	tags  bool   // it needs the drivers
	test  string // the package and the test that must find it, where it is out of reach for programs
}

// edit replaces a text of a file, which occurs once.
type edit struct{ file, old, new string }

// planted are defects of the kinds that code like this has.
var planted = []mutant{
	{name: "a writer does not wait for readers", edits: []edit{{"stream/submit.go", "for _, e := range b.Pending() {\n\t\t\tif _, err := await(ctx, s, e, true)", "for _, e := range b.Pending()[:0] {\n\t\t\tif _, err := await(ctx, s, e, true)"}}},
	{name: "a reader does not wait for the writer", edits: []edit{{"stream/submit.go", "if e := b.Ready(); e != nil {\n\t\t\tif _, err := await(ctx, s, e, false); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n\t\t\tif _, ok", "if e := b.Ready(); e != nil && len(held) == 0 {\n\t\t\tif _, err := await(ctx, s, e, false); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n\t\t\tif _, ok"}}},
	{name: "a read is not noted as a use", edits: []edit{{"stream/submit.go", "\t\t\tb.Used(done)\n", "\t\t\t_ = b\n"}}},
	{name: "memory is freed before the work on it is done", edits: []edit{{"core/buffer.go", "pending = slices.DeleteFunc(b.Pending(), isDone)", "pending = slices.DeleteFunc(b.Pending(), func(Event) bool { return true })"}}},
	{name: "a failed write is forgotten", edits: []edit{{"core/buffer.go", "if done, err := o.ready.Done(); done && err == nil {", "if done, _ := o.ready.Done(); done {"}}},
	{name: "a view may be written where its tensor may not", edits: []edit{{"core/tensor_view.go", "Flags:   t.flags &^ FlagCopied,", "Flags:   t.flags &^ FlagCopied &^ FlagReadOnly,"}}},
	{name: "a broadcast may be written", edits: []edit{{"core/tensor_view.go", "if err == nil && l.HasOverlap() {", "if err == nil && l.HasOverlap() && l.Rank() > 9 {"}}},
	{name: "a slice backwards goes forwards", edits: []edit{{"core/layout_view.go", "dims[l.Rank()+axis] *= step", "dims[l.Rank()+axis] *= max(step, -step)"}}},
	{name: "a copy of what is read-only is not", edits: []edit{{"exchange/copying.go", "if m.o.Copy == Always {\n\t\tp.result.Flags", "if m.o.Copy != Never {\n\t\tp.result.Flags"}}},
	{name: "what is to be copied is shared where it is open", edits: []edit{{"exchange/exchange.go", "o.Copy == Always || o.Only != 0", "o.Only != 0"}}},
	{name: "a slice is not pinned", mode: "collector", edits: []edit{{"core/values.go", "\tp.Pin(first)\n", "\t_ = first\n"}}},
	{name: "a device closes with memory in use", edits: []edit{{"backends/cpu/device.go", "if d.streams > 0 || d.memories > 0 {", "if d.streams > 0 {"}}},
}

// budget is the most steps that a mutant lives for.
const budget = 20000

// TestMutants proves that programs find defects. DLX_SOAK_MUTANTS says which: "quick"
// are those that need no driver, "all" is all, otherwise names with commas between.
func TestMutants(t *testing.T) {
	which := os.Getenv("DLX_SOAK_MUTANTS")
	if which == "" {
		t.Skip("DLX_SOAK_MUTANTS is not set: make test-soak and make soak set it")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range slices.Concat(planted, found) {
		if which != "all" && !(which == "quick" && !m.tags && m.test == "") && !strings.Contains(which, m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			start := time.Now()
			steps := hunt(t, root, m)
			t.Logf("found within %d steps, %v with the building", steps, time.Since(start).Round(time.Second))
		})
	}
}

// hunt builds a mutant, runs programs until one goes wrong, and returns after how many steps.
func hunt(t *testing.T, root string, m mutant) int64 {
	folder := t.TempDir()
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for i, e := range m.edits {
		path := filepath.Join(root, e.file)
		from := path
		if overlay.Replace[path] != "" {
			from = overlay.Replace[path]
		}
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			t.Fatalf("%s has %d times the text\n%s", e.file, n, e.old)
		}
		to := filepath.Join(folder, string(rune('a'+i))+".go")
		if err := os.WriteFile(to, []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[path] = to
	}
	file := filepath.Join(folder, "overlay.json")
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-overlay", file}
	if !m.tags && m.test == "" {
		args = append(args, "-tags=")
	}
	if m.test != "" {
		pkg, test, _ := strings.Cut(m.test, " ")
		cmd := exec.Command("go", append(append([]string{"test", "-count=1"}, args...), "-run", test, pkg)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err == nil || strings.Contains(string(out), "[build failed]") {
			t.Fatalf("%s does not find it: %v\n%s", m.test, err, out)
		}
		return 0
	}
	binary := filepath.Join(folder, "mutant.test")
	cmd := exec.Command("go", append(append([]string{"test", "-c", "-o", binary}, args...), "./internal/soak")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	how := modes[0]
	for _, x := range modes {
		if x.name == m.mode {
			how = x
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r := runBinary(ctx, binary, Job{Seed: 1, Steps: budget}, how.env)
	if r.wrong == "" {
		t.Errorf("nothing went wrong in %d steps", r.steps)
	}
	return r.steps
}

// found are the defects that were found in this project, put back.
var found = []mutant{}
