package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) {
	if os.Getenv(pairVariable) != "" { // the second process of a pair
		os.Exit(run(context.Background(), all.New(), []string{pairFlag}, os.Stdout, os.Stderr))
	}
	if what := os.Getenv(remoteVariable); what != "" { // one of the two of package remote
		os.Exit(run(context.Background(), all.New(), []string{remoteFlag, what}, os.Stdout, os.Stderr))
	}
	coretest.Main(m)
}

// small measures next to nothing, in the root of the repository.
func small(t *testing.T) *bench {
	t.Helper()
	t.Chdir("../../..")
	return &bench{registry: all.New(), python: ".venv-peers/bin/python", rounds: 2, length: 1, log: os.Stderr, small: true}
}

// wantRows checks what holds for the rows of every adapter.
func wantRows(t *testing.T, rows []Row) {
	t.Helper()
	r := Report{Schema: schema, Sections: []Section{{Peer: "x", Rows: rows}}}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

// The table is made of the results: nobody has typed a number.
func TestTheCommittedTablesAreThoseOfTheCommittedResults(t *testing.T) {
	all, err := choose("")
	if err != nil {
		t.Fatal(err)
	}
	apart, err := choose(remotePeer)
	if err != nil {
		t.Fatal(err)
	}
	wantTable(t, "../peers.md", all)
	wantTable(t, "../remote.md", apart)
}

func wantTable(t *testing.T, path string, peers []peer) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file := regexp.MustCompile(`\(\.\./results/(peers-[a-z0-9_-]+\.json)\)`).FindSubmatch(page)
	if file == nil {
		t.Fatalf("%s does not say which results it shows", path)
	}
	name := string(file[1])
	r, err := readReport(filepath.Join("../../results", name))
	if err != nil {
		t.Fatal(err)
	}
	if table(r, name) != string(page) {
		t.Errorf("%s is not the table of %s: write it by go run ./benchmarks/lab/peers -render", path, name)
	}
	for _, p := range peers {
		if !slices.ContainsFunc(r.Sections, func(s Section) bool { return s.Peer == p.name }) {
			t.Errorf("%s has no section for %s: a peer that cannot be had is a row with a reason", name, p.name)
		}
	}
}

func TestOneCommandMeasuresWritesAndRenders(t *testing.T) {
	t.Chdir("../../..")
	folder := t.TempDir()
	out, page := filepath.Join(folder, "r.json"), filepath.Join(folder, "r.md")
	var stdout, stderr bytes.Buffer
	command := func(args ...string) int {
		return run(t.Context(), all.New(), append(args, "-out", out, "-table", page), &stdout, &stderr)
	}
	if code := command("-peer", "nvbandwidth", "-short"); code != 0 {
		t.Fatalf("exit status %d: %s", code, &stderr)
	}
	if code := command("-peer", "dlpack", "-short"); code != 0 {
		t.Fatalf("exit status %d: %s", code, &stderr)
	}
	r, err := readReport(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Sections) != 2 || r.Sections[0].Peer != "dlpack" || r.Sections[1].Peer != "nvbandwidth" {
		t.Errorf("the sections are not those of both runs by the order of the peers: %v", r.Sections)
	}
	before, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if code := command("-render"); code != 0 {
		t.Fatalf("exit status %d: %s", code, &stderr)
	}
	if after, err := os.ReadFile(page); err != nil || !bytes.Equal(before, after) {
		t.Errorf("-render writes another table (%v)", err)
	}
}

func TestWhatTheCommandRefuses(t *testing.T) {
	folder := t.TempDir()
	other := filepath.Join(folder, "other.json")
	if err := os.WriteFile(other, []byte(`{"schema": 7, "machine": {"platform": "", "cpus": 0, "go": ""}, "sections": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-peer", "clpaek"}, 2, "the peers are stream, numpy"},
		{[]string{"clpeak"}, 2, "-peer"},
		{[]string{"-rounds", "x"}, 2, "rounds"},
		{[]string{"-render", "-out", filepath.Join(folder, "none.json")}, 1, "no such file"},
		{[]string{"-render", "-out", other}, 1, "schema is 7"},
		{[]string{"-convert-nvbandwidth", other, "-out", filepath.Join(folder, "x.json")}, 1, "no version"},
	} {
		var stderr bytes.Buffer
		code := run(t.Context(), all.New(), append(c.args, "-table", filepath.Join(folder, "t.md")), &stderr, &stderr)
		if code != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%q ends with %d and says %q, want %d and %q", c.args, code, &stderr, c.code, c.want)
		}
	}
}

// Without its program or its library a peer is a row that says so.
func TestAPeerThatIsMissingIsARowWithAReason(t *testing.T) {
	b := small(t)
	b.python = filepath.Join(t.TempDir(), "python")
	t.Setenv("PATH", t.TempDir())
	for _, p := range peers() {
		if p.before || p.name == "nvbandwidth" {
			continue
		}
		rows := p.run(t.Context(), b)
		wantRows(t, rows)
		if len(rows) == 0 {
			t.Errorf("%s has no rows", p.name)
		}
		for _, row := range rows {
			if row.Status != Skipped || row.Value != 0 {
				t.Errorf("%s, %s is %s: %s", row.Peer, row.Case, row.Status, row.Reason)
			}
		}
	}
}
