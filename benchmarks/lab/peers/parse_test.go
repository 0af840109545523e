package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample reads what a tool has printed.
func sample(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// changes are pairs of what is replaced in a sample by what. Each must be refused, with the offending text in the error.
func refuses(t *testing.T, text string, parse func(string) error, changes ...string) {
	t.Helper()
	if err := parse(text); err != nil {
		t.Errorf("as it is: %v", err)
	}
	for i := 0; i < len(changes); i += 3 {
		old, replaced, want := changes[i], changes[i+1], changes[i+2]
		if !strings.Contains(text, old) {
			t.Fatalf("the sample has no %q", old)
		}
		if err := parse(strings.Replace(text, old, replaced, 1)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %q in place of %q: %v, want an error with %q", replaced, old, err, want)
		}
	}
}

func TestClpeaksFile(t *testing.T) {
	text := sample(t, "clpeak-1.1.2.xml")
	device, figures, err := parseClpeak(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) != 8 || figures[0] < 1 || !strings.Contains(device, "Portable Computing Language 3.1") {
		t.Errorf("%q has %v", device, figures)
	}
	refuses(t, text, func(text string) error { _, _, err := parseClpeak(strings.NewReader(text)); return err },
		`unit="gbps"`, `unit="mbps"`, "mbps",
		"enqueuewritebuffer>", "write>", "not understood",
		"<enqueueunmap>", "<enqueueunmap>fast", "fast",
		"</clpeak>", "", "not understood",
		"<transfer_bandwidth", "<global_bandwidth/><transfer_bandwidth", "not asked for")
}

func TestClpeaksFileWithoutAFigure(t *testing.T) {
	text := sample(t, "clpeak-1.1.2.xml")
	from, to := strings.Index(text, "<enqueueunmap>"), strings.Index(text, "<memcpy_to")
	if _, _, err := parseClpeak(strings.NewReader(text[:from] + text[to:])); err == nil || !strings.Contains(err.Error(), "7 figures") {
		t.Error(err)
	}
}

func TestClpeaksVersion(t *testing.T) {
	if v, err := clpeakVersion(sample(t, "clpeak-version.txt")); v != "1.1.2" || err != nil {
		t.Error(v, err)
	}
	if _, err := clpeakVersion("clpeak version: 2.1.2\n"); statusOf(err) != Unsupported || !strings.Contains(err.Error(), "2.1.2") {
		t.Error(err)
	}
}

// strace of clpeak 1.1.2 shows two allocations of 128 MiB with these limits.
func TestTheSizeOfClpeaksBuffer(t *testing.T) {
	text := sample(t, "clinfo.txt")
	if n, err := clpeakSize(text); n != 128<<20 || err != nil {
		t.Error(n, err)
	}
	huge := strings.Replace(text, "268435456", "26843545600", 1)
	if n, err := clpeakSize(huge); n != 512<<20 || err != nil {
		t.Errorf("a CPU with much memory: %d, %v", n, err)
	}
	if n, err := clpeakSize(strings.ReplaceAll(huge, "DEVICE_TYPE_CPU", "DEVICE_TYPE_GPU")); n != 2<<30 || err != nil {
		t.Errorf("a GPU with much memory: %d, %v", n, err)
	}
	parse := func(text string) error { _, err := clpeakSize(text); return err }
	refuses(t, text, parse, "CL_DEVICE_MAX_WORK_GROUP_SIZE ", "CL_DEVICE_X ", "does not say", "268435456", "much", "does not say")
	if err := parse(text + text); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Error(err)
	}
}

func TestUCXsLines(t *testing.T) {
	if v, err := parseUCX(sample(t, "ucx-lat.csv"), false); v != 0.175 || err != nil {
		t.Error(v, err)
	}
	text := sample(t, "ucx-bw.csv")
	if v, err := parseUCX(text, true); v != 105.67*mebibyte/1e9 || err != nil {
		t.Error(v, err)
	}
	refuses(t, text, func(text string) error { _, err := parseUCX(text, true); return err },
		"overall_bw", "best_bw", "best_bw",
		",7,7", ",7", "fields",
		"105.67,7", "fast,7", `"fast"`,
		",105.67,7", ",-1,7", `"-1"`,
		",105.67,7", ",0,7", "the figure is 0",
		"iterations", "a warning\niterations", "3 lines")
}

func TestUCXsVersion(t *testing.T) {
	if v, err := ucxVersion(sample(t, "ucx_info.txt")); v != "1.13.1" || err != nil {
		t.Error(v, err)
	}
	if v, err := ucxVersion("# Library version: 1.18.1\n"); v != "1.18.1" || err != nil {
		t.Error(v, err)
	}
	if _, err := ucxVersion("ucx 2"); err == nil {
		t.Error("another format is accepted")
	}
}

func TestPortsThatListen(t *testing.T) {
	const table = "  sl  local_address rem_address   st\n   0: 0100007F:AB0D 00000000:0000 0A 0\n   1: 0100007F:9EAC 0100007F:AB0D 01 0\n"
	for port, want := range map[string]bool{"43789": true, "40620": false, "80": false, "x": false} {
		if listens(table, port) != want {
			t.Errorf("port %s: %v", port, !want)
		}
	}
}

func TestAnswersOfSamplers(t *testing.T) {
	if a, err := parseAnswer([]byte(`{"ns": 12}`)); a.Time != 12 || err != nil {
		t.Error(a, err)
	}
	if _, err := parseAnswer([]byte(`{"error": "not supported: no SSE2"}`)); statusOf(err) != Unsupported {
		t.Error(err)
	}
	for _, line := range []string{`{"ms": 12}`, `12`, `Traceback`, ``, `{"ns": "12"}`, `{"error": "boom"}`} {
		if _, err := parseAnswer([]byte(line)); err == nil || statusOf(err) != Failed {
			t.Errorf("%q gives %v", line, err)
		}
	}
}

// The sample was made by hand after json_output.cpp of nvbandwidth 0.8, since there is no card here.
func TestNVBandwidthsJSON(t *testing.T) {
	text := sample(t, "nvbandwidth.json")
	rows, err := parseNVBandwidth([]byte(text), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	wantRows(t, rows)
	if len(rows) != 3 || rows[0].Value != 55.5 || rows[0].Unit != GBPerSecond || rows[1].Unit != Nanoseconds || rows[2].Status != Unsupported {
		t.Errorf("%+v", rows)
	}
	refuses(t, text, func(text string) error { _, err := parseNVBandwidth([]byte(text), 1); return err },
		`"55.5"`, `"fast"`, `"fast"`,
		`"55.5"`, `"N/A"`, "no figure",
		"(GB/s)", "(GB)", "(GB)",
		`"Passed"`, `"Maybe"`, "Maybe",
		`"version" : "v0.8"`, `"error" : "no device"`, "no device",
		"[ [", "[", "not understood")
	if rows, err := parseNVBandwidth([]byte("a warning\n"+text), 1); len(rows) != 3 || err != nil {
		t.Error(rows, err)
	}
	if _, err := parseNVBandwidth([]byte("cannot open libcuda"), 1); err == nil || !strings.Contains(err.Error(), "libcuda") {
		t.Error(err)
	}
}

func TestTheResultsOfBenchInterop(t *testing.T) {
	text, err := os.ReadFile("../../results/interop-linux-x86_64-2cpu.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := parseInterop(text)
	if err != nil {
		t.Fatal(err)
	}
	rows := r.rows()
	wantRows(t, rows)
	others := 0
	for _, g := range r.Groups {
		others += len(g.NS) - 1 // dlx
	}
	if len(rows) != others || others == 0 {
		t.Errorf("%d rows for %d producers", len(rows), others)
	}
	for _, row := range rows {
		if row.DLX == "" || row.Ratio <= 0 {
			t.Errorf("%s, %s has nothing of dlx", row.Case, row.Peer)
		}
	}
	for _, wrong := range []string{`{}`, `{"schema": 2}`, `[]`, string(bytes.Replace(text, []byte(`"groups"`), []byte(`"lines"`), 1))} {
		if _, err := parseInterop([]byte(wrong)); err == nil {
			t.Errorf("%.30q is accepted", wrong)
		}
	}
}
