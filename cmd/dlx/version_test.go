package main

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
)

// The page of the command has an example of each of its commands.
func TestThePageHasEveryCommand(t *testing.T) {
	page, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range newRootCommand(&app{}).Commands() {
		if !c.Hidden && c.Name() != "help" && !strings.Contains(string(page), "./dlx "+c.Name()+" ") {
			t.Errorf("docs/command.md has no ./dlx %s", c.Name())
		}
	}
}

// Parentheses are not called brackets: the output of these commands has parentheses.
func TestHelpNamesParentheses(t *testing.T) {
	for _, command := range []string{"plan", "bench"} {
		if help := dlx(t, command, "--help").stdout; strings.Contains(help, "in brackets") || !strings.Contains(help, "in parentheses") {
			t.Errorf("the help of %s is %s", command, help)
		}
	}
}

func TestVersionTellsWhatTheBuildKnows(t *testing.T) {
	info := &debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{
			{Key: "-tags", Value: "cuda,vulkan"},
			{Key: "CGO_ENABLED", Value: "1"},
			{Key: "vcs.revision", Value: "0123abc"},
			{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
			{Key: "vcs.modified", Value: "true"},
		},
	}
	v := newVersionResult(info, new(core.Registry))
	if v.Version != "v1.2.3" || !slices.Equal(v.Tags, []string{"cuda", "vulkan"}) || !v.Cgo || v.Revision != "0123abc" || v.Time != "2026-01-02T03:04:05Z" || !v.Modified {
		t.Errorf("%+v", v)
	}
	var text bytes.Buffer
	v.writeText(&text)
	if !strings.Contains(text.String(), "0123abc (modified)") {
		t.Errorf("text:\n%s", text.String())
	}
}

func TestVersionNamesTagsThatDlxDoesNotKnow(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "-tags", Value: "vulcan,opencl,netgo,x\x1b"}}}
	v := newVersionResult(info, new(core.Registry))
	if !slices.Equal(v.Unknown, []string{"vulcan", "x\x1b"}) || !slices.Equal(v.NotBuilt, all.Tags()) || v.Built == nil {
		t.Errorf("%+v", v)
	}
	var text bytes.Buffer
	v.writeText(&text)
	if want := `unknown tags	"vulcan x\x1b" (dlx has the tags ` + strings.Join(all.Tags(), ", ") + ", ucx)"; !strings.Contains(text.String(), want) {
		t.Errorf("no %q in\n%s", want, text.String())
	}
}

func TestVersionListsTheBackendsOfThisBuild(t *testing.T) {
	o := dlx(t, "--version", "--json")
	v := decode[versionResult](t, o, "dlx")
	others := slices.DeleteFunc(all.Tags(), func(tag string) bool { return tag == "vulkan" })
	if !slices.Equal(v.Built, []string{"cpu", "ext_dev", "vulkan"}) || !slices.Equal(v.NotBuilt, others) {
		t.Errorf("%+v", v)
	}
	if text := dlx(t, "--version"); text != dlx(t, "version") || !strings.Contains(text.stdout, "not built  "+strings.Join(others, " ")+"\n") {
		t.Errorf("%+v", text)
	}
}

func TestVersionWithoutBuildInformation(t *testing.T) {
	if v := newVersionResult(nil, new(core.Registry)); v.Version != "unknown" || v.Tags == nil {
		t.Errorf("%+v", v)
	}
}

func TestVersionOfThisBuild(t *testing.T) {
	v := decode[versionResult](t, dlx(t, "version", "--json"), "version")
	if v.Go != runtime.Version() || v.Platform != runtime.GOOS+"/"+runtime.GOARCH || v.DLPack != "1.3" {
		t.Errorf("%+v", v)
	}
}
