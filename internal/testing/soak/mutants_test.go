package soak

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	rare  bool   // few programs come upon it
	tags  bool   // it needs the drivers
	test  string // the package and the test that must find it, where it is out of reach for programs
}

// edit replaces a text of a file, which occurs once.
type edit struct{ file, old, new string }

// planted are defects of the kinds that code like this has.
var planted = []mutant{
	{name: "a writer does not wait for readers", edits: []edit{{"stream/uses.go", "range u.at(i).Pending() {", "range u.at(i).Pending()[:0] {"}}},
	{name: "a reader does not wait for the writer", edits: []edit{{"stream/uses.go", "if e := u.at(i).Ready(); e != nil {", "if e := u.at(i).Ready(); e != nil && u.written == 0 {"}}},
	{name: "a read is not noted as a use", edits: []edit{{"stream/uses.go", "\t\t\tb.Used(done)\n", "\t\t\t_ = done\n"}}},
	{name: "memory is freed before the work on it is done", edits: []edit{{"core/buffer.go", "pending = slices.DeleteFunc(b.Pending(), isDone)", "pending = slices.DeleteFunc(b.Pending(), func(Event) bool { return true })"}}},
	{name: "a failed write is forgotten", edits: []edit{{"core/buffer.go", "if done, err := o.ready.Done(); done && err == nil {", "if done, _ := o.ready.Done(); done {"}}},
	{name: "a view may be written where its tensor may not", edits: []edit{{"core/tensor_view.go", "Flags:   t.flags &^ FlagCopied,", "Flags:   t.flags &^ FlagCopied &^ FlagReadOnly,"}}},
	{name: "a broadcast may be written", edits: []edit{{"core/tensor_view.go", "if err == nil && l.HasOverlap() {", "if err == nil && l.HasOverlap() && l.Rank() > 9 {"}}},
	{name: "a slice backwards goes forwards", edits: []edit{{"core/layout_view.go", "dims[l.Rank()+axis] *= step", "dims[l.Rank()+axis] *= max(step, -step)"}}},
	{name: "a copy of what is read-only is not", edits: []edit{{"exchange/copying.go", "if m.o.Copy == Always {\n\t\tc.result.Flags", "if m.o.Copy != Never {\n\t\tc.result.Flags"}}},
	{name: "what is to be copied is shared where it is open", edits: []edit{{"exchange/exchange.go", "o.Copy == Always || o.Only != 0", "o.Only != 0"}}},
	{name: "what is copied together comes in another order", edits: []edit{{"exchange/toall.go", "b.results[item.index] = t", "b.results[c.items[len(c.items)-1-i].index] = t"}}},
	{name: "what is copied together waits for its first source", test: "./stream TestSubmitWaitsForEachSource", edits: []edit{{"stream/uses.go", "if last != nil && sameEvent(privateCore.LastWrite(u.at(i)), last) {", "if last != nil {"}}},
	{name: "the host sees memory of a renderer elsewhere", tags: true, edits: []edit{{"backends/vulkan/imported.go", "whole: b.MemorySize, host: b.Mapped,", "whole: b.MemorySize, host: b.Mapped + 4,"}}},
	{name: "memory is written while another process reads it", edits: []edit{{"share/send.go", "p.root.Used(&x.lease)", "_ = &x.lease"}}},
	{name: "a tensor of another process begins where its memory does", edits: []edit{{"share/parcel.go", "Offset: t.Offset() - b.Memory().Offset,", "Offset: 0,"}}},
	{name: "what is joined lies in one place", edits: []edit{{"core/join.go", "part, by, err := j.part(at, t)", "part, by, err := j.part(0, t)"}}},
	{name: "a slice is not pinned", mode: "collector", edits: []edit{{"core/element.go", "\tp.Pin(first)\n", "\t_ = first\n"}}},
	{name: "a device closes with memory in use", rare: true, edits: []edit{{"backends/internal/devicebase/device.go", "d.open.Set(\"memory\", d.Memories)", "d.open.Set(\"memory\", 0)"}}},
}

// budget is the most steps that a mutant lives for, and a rare one.
const budget, rareBudget = 20000, 100000

// TestMutants proves that programs find defects. DLX_SOAK_MUTANTS says which: "all", or names with commas between.
func TestMutants(t *testing.T) {
	which := os.Getenv("DLX_SOAK_MUTANTS")
	if which == "" {
		t.Skip("DLX_SOAK_MUTANTS is not set: make quick-mutants, test-mutants and soak set it")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(planted, found)
	if which != "all" {
		for name := range strings.SplitSeq(which, ",") {
			if !slices.ContainsFunc(all, func(m mutant) bool { return m.name == name }) {
				t.Errorf("no mutant is named %q", name)
			}
		}
	}
	for _, m := range all {
		if which != "all" && !slices.Contains(strings.Split(which, ","), m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			start := time.Now()
			hunt(t, root, m)
			t.Logf("%v with the building", time.Since(start).Round(time.Second))
		})
	}
}

// The source has the lines that the mutants change.
func TestMutantsQuoteTheSource(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range slices.Concat(planted, found) {
		t.Run(m.name, func(t *testing.T) { plant(t, root, m) })
	}
}

// testEnds is what a test prints that fails, or that ends its process.
var testEnds = regexp.MustCompile(`--- FAIL|panic: |fatal error: `)

// plant writes the files of a mutant, and returns them by those that they replace.
func plant(t *testing.T, root string, m mutant) map[string]string {
	t.Helper()
	folder := t.TempDir()
	replace := make(map[string]string)
	for i, e := range m.edits {
		path := filepath.Join(root, e.file)
		from := path
		if replace[path] != "" {
			from = replace[path]
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
		replace[path] = to
	}
	return replace
}

// hunt builds a mutant and runs programs until one goes wrong.
func hunt(t *testing.T, root string, m mutant) {
	folder := t.TempDir()
	overlay := struct{ Replace map[string]string }{plant(t, root, m)}
	file := filepath.Join(folder, "overlay.json")
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-overlay", file}
	if !m.tags {
		args = append(args, "-tags=")
	}
	if m.test != "" {
		pkg, test, _ := strings.Cut(m.test, " ")
		cmd := exec.Command("go", append(append([]string{"test", "-count=1", "-timeout=2m"}, args...), "-run", test, pkg)...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+file) // for what the test builds itself
		if out, err := cmd.CombinedOutput(); err == nil || !testEnds.Match(out) {
			t.Fatalf("%s does not find it: %v\n%s", m.test, err, out)
		}
		return
	}
	binary := filepath.Join(folder, "mutant.test")
	cmd := exec.Command("go", append(append([]string{"test", "-c", "-o", binary}, args...), "./internal/testing/soak")...)
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
	steps := int64(budget)
	if m.rare {
		steps = rareBudget
	}
	r := runBinary(ctx, binary, Job{Seed: 1, Steps: steps}, how.env)
	switch {
	case ctx.Err() != nil || r.unready:
		t.Fatalf("%d steps were no trial: %s", r.steps, r.wrong)
	case r.wrong == "":
		t.Errorf("nothing went wrong in %d steps", r.steps)
	default:
		lines := strings.SplitN(r.wrong, "\n", 3)
		t.Logf("after %d steps: %s", r.steps, strings.Join(lines[:min(2, len(lines))], "; "))
	}
}

// found are the defects that were found in this project, put back. Those that no program over the API can reach are left to the tests that are named.
var found = []mutant{
	{name: "a pointer to what lies beside the memory is kept", tags: true, mode: "collector", edits: []edit{
		{"backends/internal/hostcopy/job.go", "\t\"unsafe\"\n", "\t\"sync/atomic\"\n\t\"unsafe\"\n"},
		{"backends/internal/hostcopy/job.go", "// pointer turns the address of an element", "var kept [64]unsafe.Pointer\n\nvar next atomic.Int32\n\n// pointer turns the address of an element"},
		{"backends/internal/hostcopy/job.go", "\tc.Dst, c.Src = 0, 0\n\treturn Copy(", "\tkept[next.Add(1)&63], kept[next.Add(1)&63] = pointer(dst), pointer(src)\n\tc.Dst, c.Src = 0, 0\n\treturn Copy("},
	}},
	{name: "a pointer to what lies beside the memory is written to C", tags: true, mode: "collector", rare: true, edits: []edit{{"backends/vulkan/descriptor.go", "setNumber(&c.mapped, o.host)", "c.mapped = *(*unsafe.Pointer)(unsafe.Pointer(&o.host))"}}},
	{name: "a VkBuffer of a renderer is not exported", tags: true, test: "./exchange TestMovesOfADescribedVkBuffer", edits: []edit{{"backends/vulkan/imported.go", "exports: driver.Handles(b.ExportTypes), dedicated", "exports: 0, dedicated"}}},
	{name: "OpenCL loses copies between two slices on one page", tags: true, edits: []edit{{"backends/internal/clcore/transfer.go", "return w.dst.pages(r.DstLow, r.DstHigh).meets(w.src.pages(r.SrcLow, r.SrcHigh))", "return r.DstLow > r.DstHigh"}}},
	{name: "a tensor and the host's view of it are not known to overlap", edits: []edit{{"core/overlap.go", "\tif toRoot == fromRoot {\n", "\tif toRoot == fromRoot {\n\t\tif db != sb {\n\t\t\treturn disjoint\n\t\t}\n"}}},
	{name: "an import of an own export is not known to overlap", rare: true, edits: []edit{{"core/overlap.go", "if f, at, ok := db.inFile(to); ok {", "if f, at, ok := db.inFile(to); ok && at < 0 {"}}},
	{name: "a report is that of the move that opened the memory", edits: []edit{
		{"exchange/exchange.go", "Mechanism: a.taken.mechanism,", "Mechanism: a.taken.mechanism, Opened: m.from.Device != m.dst,"},
	}},
	{name: "what was opened to copy from is reported as a copy", test: "./exchange TestReportsAreThoseOfTheirCall", edits: []edit{{"exchange/run.go", "\ta.taken.copies = false\n", ""}}},
	{name: "OpenCL takes no reversed tensor of unknown size", tags: true, edits: []edit{{"backends/internal/clcore/transfer.go", "b.SrcAt = 0\n\t\t\ts, call = driver.WriteBox(q.raw, w.dst.mem, w.src.host+uintptr(src), b)", "s, call = driver.WriteBox(q.raw, w.dst.mem, w.src.host, b)"}}},
	{name: "a view does not begin before memory of unknown size", edits: []edit{{"core/tensor.go", "before := m.Size == UnknownSize &&", "before := m.Size == 0 &&"}}},
	{name: "core.Values does not wait", edits: []edit{{"core/values.go", "return values[T](t, \"Values\", forReading)", "return values[T](t, \"Values\", withoutWaiting)"}}},
	{name: "core.Mutable waits for the last write only", edits: []edit{{"core/values.go", "return values[T](t, \"Mutable\", forWriting)", "return values[T](t, \"Mutable\", forReading)"}}},
	{name: "a copy of an empty tensor that is read-only is, too", rare: true, edits: []edit{{"exchange/sharing.go", "if r.o.Copy == Always {\n\t\ts.Flags", "if r.o.Copy == Always && s.Offset < 0 {\n\t\ts.Flags"}}},
	{name: "Flush leaves what its own deleters give back", test: "./core/dlpack TestFlushGivesBackAWholeChain", edits: []edit{{"core/dlpack/drain.go", "if idle && begun.Load() == before ||", "if true || idle ||"}}},

	{name: "a loop that is polled on the wrong thread runs functions there", tags: true, test: "./interop/gl TestALoopThatIsServedOnAnotherThreadRunsNothing", edits: []edit{{"interop/gl/loop.go", "thread := currentThread(); thread != l.thread {", "thread := currentThread(); thread == 0 {"}}},
	{name: "handlers of signals stay a driver's", test: "./backends/internal/dl TestALibraryThatTakesOverSignals", edits: []edit{{"backends/internal/dl/handlers_linux.go", "return func() { C.dlx_put_back() }", "return func() {}"}}},
	{name: "a producer's struct is read twice", test: "./core/dlpack TestAProducerThatChangesItsStructMeanwhile", edits: []edit{{"core/layout.go", "\tlow, high, err = l.check(call)\n", "\tlow, high, err = l.check(call)\n\tcopy(dims, shape)\n"}}},
	{name: "a file gets the permissions of a new one", test: "./internal/atomicfile TestAReplacedFileKeepsItsPermissions", edits: []edit{{"internal/atomicfile/atomicfile.go", "\t\tif t.old != nil {\n\t\t\tadopt(", "\t\tif t.old == nil {\n\t\t\tadopt("}}},
	{name: "a truncated file ends the process", test: "./internal/memfault TestAFaultIsAnError", edits: []edit{{"internal/memfault/memfault.go", "debug.SetPanicOnFault(true)", "debug.SetPanicOnFault(false)"}}},
	{name: "a name reaches the terminal as it is", test: "./cmd/dlx TestOddNamesAreShownApartAndFoundAgain", edits: []edit{{"cmd/dlx/names.go", "if !utf8.ValidString(s) || strings.ContainsFunc(", "if !utf8.ValidString(s) && s == \"\" && strings.ContainsFunc("}}},
	{name: "a damaged archive is empty", test: "./tensorfile TestDamageThatOnceWasAnEmptyArchive", edits: []edit{{"tensorfile/npz_directory.go", "\td, ok := findDirectory(data)\n", "\tif len(files) == 0 {\n\t\treturn nil\n\t}\n\td, ok := findDirectory(data)\n"}}},

	{name: "Close of a device has no turn among others", test: "./backends/internal/reaper TestCloseHasItsTurn", edits: []edit{{"backends/internal/reaper/gate.go", "err != nil || g.closing.Load() == 0 {", "err != nil || g.closing.Load() >= 0 {"}}},
	{name: "a call on a wrapped context ignores its own", tags: true, test: "./backends/gl TestCallsEndWithTheirContext", edits: []edit{{"backends/internal/relay/relay.go", "\t\treturn c.err\n\tcase <-ctx.Done():\n", "\t\treturn c.err\n\tcase <-context.Background().Done():\n"}}},
	{name: "a report is truncated on a full disk", test: "./cmd/dlx TestFilesAreWholeOrAsTheyWere/no_room_on_the_disk", edits: []edit{{
		"cmd/dlx/bench_html.go", "err := atomicfile.Write(ctx, path, write)\n\tif !isOutput(err) {", "err := error(nil)\n\tif false {\n\t\terr = atomicfile.Write(ctx, path, write)"}, {"cmd/dlx/bench_html.go", "file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)", "file, err := os.Create(path)"}}},
	{name: "WriteFile takes the old file away first", test: "./tensorfile TestWriteFileKeepsPermissionsAndLinks", edits: []edit{
		{"tensorfile/write.go", "\t\"math\"\n", "\t\"math\"\n\t\"os\"\n"},
		{"tensorfile/write.go", "\terr = atomicfile.Write(", "\t_ = os.Remove(path)\n\terr = atomicfile.Write("},
	}},
	{name: "bench takes the old report away first", test: "./cmd/dlx TestAReplacedFileKeepsItsPermissions", edits: []edit{{"cmd/dlx/bench_html.go", "\terr := atomicfile.Write(", "\t_ = os.Remove(path)\n\terr := atomicfile.Write("}}},
	{name: "a truncated input ends as a wrong command line", test: "./cmd/dlx TestAFileThatIsTruncatedMeanwhileIsAFailure", edits: []edit{{"backends/internal/hostcopy/guard.go", "uintptr(end-first))(address)", "uintptr((end-first)*0))(address)"}}},
	{name: "a symbolic link is replaced by a file", test: "./internal/atomicfile TestASymbolicLinkIsWrittenThrough", edits: []edit{{"internal/atomicfile/atomicfile.go", "next, err := os.Readlink(end)\n\t\tif err != nil {", "next, err := os.Readlink(end)\n\t\tif err != nil || next != \"\" {"}}},
	{name: "a pipe is replaced by a file", test: "./internal/atomicfile TestWhatIsNoFileIsLeftAlone", edits: []edit{{"internal/atomicfile/atomicfile.go", "if descriptor || !info.Mode().IsRegular() || err != nil", "if descriptor || info.IsDir() || err != nil"}}},
	{name: "a long name cannot be written", test: "./internal/atomicfile TestAnyNameThatTheSystemAllows", edits: []edit{
		{"internal/atomicfile/atomicfile.go", "name := folder + \".dlx-\"", "name := t.path + \".dlx-\""},
		{"internal/atomicfile/atomicfile.go", "\tfolder, _ := filepath.Split(t.path)\n\tfor {", "\tfor {"},
	}},
	{name: "SIGHUP leaves the temporary file", test: "./cmd/dlx TestFilesAreWholeOrAsTheyWere", edits: []edit{{"cmd/dlx/main.go", "syscall.SIGTERM, syscall.SIGHUP, os.Interrupt", "syscall.SIGTERM, os.Interrupt"}}},
	{name: "an impossible path is found after the work", test: "./cmd/dlx TestAPathThatCannotBeWrittenIsFoundBeforeTheWork", edits: []edit{{"cmd/dlx/bench.go", "if f.jsonFile != \"\" {\n\t\tif err := a.checkReport", "if f.jsonFile == \"-\" {\n\t\tif err := a.checkReport"}}},
	{name: "names that are not UTF-8 collide in JSON", test: "./cmd/dlx TestOddNamesAreShownApartAndFoundAgain", edits: []edit{{"cmd/dlx/names.go", "if !utf8.ValidString(name) || strings.HasPrefix(", "if strings.HasPrefix("}}},
	{name: "--tensor does not take the quoted form", test: "./cmd/dlx TestOddNamesAreShownApartAndFoundAgain", edits: []edit{{"cmd/dlx/names.go", "return name, err == nil", "return name, err != nil"}}},
	{name: "a driver is started without room", test: "./backends/internal/dl TestRoom", edits: []edit{{"backends/internal/dl/room_linux.go", "C.size_t(r.Bytes)) != 0 {", "C.size_t(r.Bytes)) >= 0 {"}}},
	{name: "a report says that nothing waits", edits: []edit{{"exchange/move.go", "report.waited(how, m.o.Stream)", "report.waited(min(how, 0), m.o.Stream)"}}},
}
