// Package browsertest tests the pages of the command in a real browser, a headless Chromium. It is a module of its own, so
// that programs that use dlx do not get what drives the browser.
package browsertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/cmd/dlx/internal/report"
	"github.com/dlx-go/dlx/cmd/dlx/internal/report/reporttest"
)

// browser is the one browser of all tests; folder has the pages.
var (
	browser context.Context
	folder  string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	path := chromium()
	if path == "" {
		if os.Getenv("DLX_REPORT_MAY_SKIP") != "" {
			fmt.Println("skipped: no Chromium: " + os.Getenv("DLX_REPORT_MAY_SKIP"))
			return 0
		}
		fmt.Println("there is no Chromium (Debian: chromium)")
		return 1
	}
	var err error
	if folder, err = os.MkdirTemp("", "dlx-pages"); err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := writePages(); err != nil {
		fmt.Println(err)
		return 1
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("hide-scrollbars", true), chromedp.UserDataDir(filepath.Join(folder, "profile")), chromedp.WSURLReadTimeout(time.Minute))
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	defer endAllocator()
	var end context.CancelFunc
	browser, end = chromedp.NewContext(allocator)
	defer end()
	if err := chromedp.Run(browser); err != nil {
		fmt.Println("Chromium does not start:", err)
		return 1
	}
	return m.Run()
}

func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// pages are the names of the pages in the folder. The last three come from the command itself.
var pages = []string{"full", "large", "empty", "bench", "devices", "plan"}

func writePages() error {
	for name, r := range map[string]benchmarks.Report{"full": reporttest.Report(), "large": reporttest.Large(500, 200), "empty": {Date: time.Unix(0, 0)}} {
		var b bytes.Buffer
		program := report.Program{Version: "v1.2.3 " + reporttest.Hostile, Go: "go1.25", Platform: "linux/amd64"}
		if err := report.WriteBench(&b, program, r, func(r benchmarks.Report) any { return r }); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name+".html"), b.Bytes(), 0o600); err != nil {
			return err
		}
	}
	program := filepath.Join(folder, "dlx")
	build := exec.Command("go", "-C", "../../../../..", "build", "-o", program, "./cmd/dlx")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building dlx: %w: %s", err, out)
	}
	for name, args := range map[string][]string{
		"bench":   {"bench", "-t", "call/", "-t", "memory/", "-i", "4", "--rounds", "1", "--budget", "3s"},
		"devices": {"devices"},
		"plan":    {"plan"},
	} {
		if out, err := exec.Command(program, append(args, "--html", filepath.Join(folder, name+".html"))...).CombinedOutput(); err != nil {
			return fmt.Errorf("dlx %v: %w: %s", args, err, out)
		}
	}
	return nil
}

// tab is an open page. It records what a page must not do.
type tab struct {
	t   *testing.T
	ctx context.Context
	mu  sync.Mutex
	bad []string
}

// screen is how a page is shown.
type screen struct {
	width, height int64
	scheme        string
}

var (
	desk  = screen{1200, 900, "light"}
	night = screen{1200, 900, "dark"}
	phone = screen{360, 740, "dark"}
)

// open opens a page, and reports at the end of the test what the browser complained about or asked from outside.
func open(t *testing.T, name string, s screen) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(browser)
	ctx, endTime := context.WithTimeout(ctx, 2*time.Minute)
	p := &tab{t: t, ctx: ctx}
	url := "file://" + filepath.Join(folder, name+".html")
	note := func(format string, args ...any) {
		p.mu.Lock()
		p.bad = append(p.bad, fmt.Sprintf(format, args...))
		p.mu.Unlock()
	}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if e.Request.URL != url && !strings.HasPrefix(e.Request.URL, "blob:null/") {
				note("the page asks for %s", e.Request.URL)
			}
		case *runtime.EventConsoleAPICalled:
			note("console: %v", e.Type)
		case *runtime.EventExceptionThrown:
			note("exception: %v", e.ExceptionDetails)
		case *cdplog.EventEntryAdded:
			note("log: %s", e.Entry.Text)
		}
	})
	t.Cleanup(func() {
		endTime()
		end()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, bad := range p.bad {
			t.Error(bad)
		}
	})
	p.do(network.Enable(), runtime.Enable(), cdplog.Enable(),
		emulation.SetDeviceMetricsOverride(s.width, s.height, 1, s.width < 500),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: s.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}),
		chromedp.Navigate(url), chromedp.WaitReady("#main", chromedp.ByID))
	return p
}

func (p *tab) do(actions ...chromedp.Action) {
	p.t.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// eval runs a script in the page, which may return a promise, and decodes its value.
func eval[T any](p *tab, script string) (value T) {
	p.t.Helper()
	p.do(chromedp.Evaluate(script, &value, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	return value
}

// equal reports values that differ.
func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// colors counts the colours of a screenshot, and returns the one in its corner.
func (p *tab) colors() (n int, corner color.Color) {
	p.t.Helper()
	var shot []byte
	p.do(chromedp.CaptureScreenshot(&shot))
	picture, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		p.t.Fatal(err)
	}
	if folder := os.Getenv("DLX_SCREENSHOTS"); folder != "" { // to look at them
		name := strings.ReplaceAll(strings.TrimPrefix(p.t.Name(), "Test"), "/", "-")
		_ = os.WriteFile(filepath.Join(folder, name+".png"), shot, 0o600)
	}
	seen := make(map[color.Color]bool)
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			seen[picture.At(x, y)] = true
		}
	}
	return len(seen), picture.At(1, 1)
}

// violation is what axe-core found.
type violation struct {
	ID    string   `json:"id"`
	Help  string   `json:"help"`
	Nodes []string `json:"nodes"`
}

// axe checks the page for violations of WCAG 2.2 A and AA. Without axe-core it says why that is missing.
func (p *tab) axe() {
	p.t.Helper()
	path := os.Getenv("DLX_AXE")
	script, err := os.ReadFile(filepath.Join(path, "axe.min.js"))
	if err != nil {
		why, _ := os.ReadFile(filepath.Join(path, "why"))
		p.t.Logf("not checked by axe-core: %v %s", err, why)
		return
	}
	p.do(chromedp.Evaluate(string(script), nil))
	found := eval[[]violation](p, `axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], resultTypes: ["violations"]})
		.then(r => r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + n.failureSummary)})))`)
	for _, v := range found {
		text, _ := json.MarshalIndent(v, "", " ")
		p.t.Errorf("axe-core: %s", text)
	}
}
