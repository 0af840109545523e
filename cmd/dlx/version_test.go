package main

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

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
	v := newVersionResult(info)
	if v.Version != "v1.2.3" || !slices.Equal(v.Tags, []string{"cuda", "vulkan"}) || !v.Cgo || v.Revision != "0123abc" || v.Time != "2026-01-02T03:04:05Z" || !v.Modified {
		t.Errorf("%+v", v)
	}
	var text bytes.Buffer
	v.writeText(&text)
	if !strings.Contains(text.String(), "0123abc (modified)") {
		t.Errorf("text:\n%s", text.String())
	}
}

func TestVersionWithoutBuildInformation(t *testing.T) {
	if v := newVersionResult(nil); v.Version != "unknown" || v.Tags == nil {
		t.Errorf("%+v", v)
	}
}

func TestVersionOfThisBuild(t *testing.T) {
	v := decode[versionResult](t, dlx(t, "version", "--json"), "version")
	if v.Go != runtime.Version() || v.Platform != runtime.GOOS+"/"+runtime.GOARCH || v.DLPack != "1.3" {
		t.Errorf("%+v", v)
	}
}
