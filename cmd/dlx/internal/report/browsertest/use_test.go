package browsertest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/cmd/dlx/internal/report/reporttest"
)

// tip returns the text of the tooltip, "" if it is hidden.
func (p *tab) tip() string {
	p.t.Helper()
	return eval[string](p, `(() => { const t = document.getElementById("tip"); return t.hidden ? "" : t.textContent; })()`)
}

type point struct{ X, Y float64 }

// middle scrolls to an element and returns where it is.
func (p *tab) middle(selector string) point {
	p.t.Helper()
	return eval[point](p, fmt.Sprintf(`new Promise((done) => {
		const e = document.querySelector(%q);
		e.scrollIntoView({block: "center", inline: "center"});
		// The event of scrolling comes with the next frame.
		requestAnimationFrame(() => requestAnimationFrame(() => { const b = e.getBoundingClientRect(); done({X: b.left + b.width / 2, Y: b.top + b.height / 2}); }));
	})`, selector))
}

// find returns a case of the report.
func find(t *testing.T, name string) benchmarks.Result {
	t.Helper()
	for _, c := range reporttest.Report().Cases {
		if c.Name == name {
			return c
		}
	}
	t.Fatal("no case " + name)
	return benchmarks.Result{}
}

func TestTooltips(t *testing.T) {
	const name = "host_to_device_memcpy_ce/rocm:0/64MiB" // its line is drawn last, above those of the other devices
	c := find(t, name)
	want := []string{name, fmt.Sprintf("%.1f GB/s", c.GBPerSecond), "95% interval", "of 31.5 GB/s (PCIe 16.0 GT/s x16, 128b/130b)", "simulated"}
	check := func(t *testing.T, p *tab) {
		t.Helper()
		for _, text := range want {
			if got := p.tip(); !strings.Contains(got, text) {
				t.Errorf("the tooltip is %q, without %q", got, text)
			}
		}
		box := eval[struct{ Left, Right, Top float64 }](p, `(() => { const b = document.getElementById("tip").getBoundingClientRect(); return {Left: b.left, Right: b.right, Top: b.top}; })()`)
		if wide := eval[float64](p, "innerWidth"); box.Left < 0 || box.Top < 0 || box.Right > wide {
			t.Errorf("the tooltip is not on the screen: %+v", box)
		}
	}
	const selector = `.mark[aria-label^="` + name + `"]`
	t.Run("hover", func(t *testing.T) {
		p := open(t, "full", desk)
		equal(t, "tooltip", p.tip(), "")
		at := p.middle(selector)
		p.do(chromedp.MouseEvent(input.MouseMoved, at.X, at.Y))
		check(t, p)
		p.do(chromedp.MouseEvent(input.MouseMoved, 3, 3))
		equal(t, "tooltip elsewhere", p.tip(), "")
	})
	t.Run("focus", func(t *testing.T) {
		p := open(t, "full", desk)
		eval[bool](p, fmt.Sprintf(`document.querySelector(%q).focus(), true`, selector))
		check(t, p)
		p.do(chromedp.KeyEvent(kb.Escape))
		equal(t, "tooltip after Escape", p.tip(), "")
	})
	t.Run("tap", func(t *testing.T) {
		p := open(t, "full", phone)
		p.do(emulation.SetTouchEmulationEnabled(true))
		at := p.middle(selector)
		p.do(input.DispatchTouchEvent(input.TouchStart, []*input.TouchPoint{{X: at.X, Y: at.Y}}), input.DispatchTouchEvent(input.TouchEnd, []*input.TouchPoint{}))
		check(t, p)
	})
	t.Run("node", func(t *testing.T) {
		p := open(t, "full", desk)
		at := p.middle(`.node[data-node="cuda:0"]`)
		p.do(chromedp.MouseEvent(input.MouseMoved, at.X, at.Y))
		if got := p.tip(); !strings.Contains(got, "NVIDIA H100") {
			t.Errorf("the tooltip of a device is %q", got)
		}
		equal(t, "its connections", eval[int](p, `document.querySelectorAll(".edge.on").length`), 10)
	})
}

// names returns the names of the cases that the table shows.
func (p *tab) names() []string {
	p.t.Helper()
	return eval[[]string](p, `Array.from(document.querySelectorAll("#cases-table tbody tr")).filter(r => !r.hidden).map(r => r.cells[0].firstChild.data)`)
}

func TestSortAndFilter(t *testing.T) {
	p := open(t, "full", desk)
	all := reporttest.Report().Cases
	equal(t, "rows", len(p.names()), len(all))
	slowest, fastest := all[0], benchmarks.Result{}
	for _, c := range all {
		if c.Median > slowest.Median {
			slowest = c
		}
		if c.GBPerSecond > fastest.GBPerSecond {
			fastest = c
		}
	}
	heading := func(n int) string { return fmt.Sprintf(`#cases-table thead th:nth-child(%d) button`, n) }
	p.do(chromedp.Click(heading(2), chromedp.ByQuery))
	equal(t, "the slowest", p.names()[0], slowest.Name)
	equal(t, "sorted", eval[string](p, `document.querySelector("#cases-table th[aria-sort]").ariaSort`), "descending")
	p.do(chromedp.Click(heading(2), chromedp.ByQuery))
	if first := find(t, p.names()[0]); first.Median >= slowest.Median || first.Median == 0 {
		t.Errorf("sorted upwards, the first is %s with %v", first.Name, first.Median)
	}
	p.do(chromedp.Click(heading(7), chromedp.ByQuery))
	equal(t, "the fastest", p.names()[0], fastest.Name)

	p.do(chromedp.SendKeys(`#cases-table [data-filter]`, "memcpy CUDA:1 64MiB", chromedp.ByQuery))
	got := p.names()
	if len(got) != 3 { // to the device, from it, and the one that failed has cuda:1, but no size
		for _, name := range got {
			if !strings.Contains(name, "cuda:1/64MiB") {
				t.Errorf("the filter shows %s", name)
			}
		}
	}
	equal(t, "count", eval[string](p, `document.querySelector("#cases-table output").textContent`), fmt.Sprintf("%d of %d", len(got), len(all)))
	eval[bool](p, `(() => { document.querySelector("#cases-table [data-filter]").value = ""; const s = document.querySelector("#cases-table select"); s.value = "handoff_latency"; s.dispatchEvent(new Event("change")); document.querySelector("#cases-table [data-filter]").dispatchEvent(new Event("input")); return true; })()`)
	equal(t, "cases of a family", len(p.names()), 30)
}

func TestKeyboard(t *testing.T) {
	p := open(t, "full", desk)
	active := func() string {
		return eval[string](p, `document.activeElement.getAttribute("aria-label") || document.activeElement.textContent.trim()`)
	}
	// Tab alone reaches every kind of thing, and what has the focus shows it.
	reached := map[string]bool{}
	for range 400 {
		p.do(chromedp.KeyEvent(kb.Tab))
		at := eval[struct {
			Kind    string
			Visible bool
			Last    bool
		}](p, `(() => { const e = document.activeElement, s = getComputedStyle(e.matches(".seg input") ? e.nextElementSibling : e);
			const outlined = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0, rect = e.querySelector("rect");
			return {Kind: e.closest("[data-roving]")?.dataset.roving || e.localName, Visible: outlined || e.matches(".mark") && parseFloat(s.strokeWidth) > 4 || !!rect && parseFloat(getComputedStyle(rect).strokeWidth) > 3, Last: e === document.body}; })()`)
		if at.Last {
			break
		}
		if !at.Visible {
			t.Errorf("the focus cannot be seen on a %s: %s", at.Kind, active())
		}
		reached[at.Kind] = true
	}
	for _, kind := range []string{"a", "button", "input", "select", "summary", "points", "list", "cells", "nodes", "div"} {
		if !reached[kind] {
			t.Errorf("Tab never reached a %q; it reached %v", kind, reached)
		}
	}

	// Arrows move in a chart, along a line and to another one.
	eval[bool](p, `document.querySelector(".chart .mark").focus(), true`)
	first := active()
	p.do(chromedp.KeyEvent(kb.ArrowRight))
	second := active()
	if first == second || !strings.HasPrefix(second, "host_to_device_memcpy_ce/cuda:0/16KiB") {
		t.Errorf("the arrow moves from %q to %q", first, second)
	}
	equal(t, "the tooltip follows", p.tip(), second)
	p.do(chromedp.KeyEvent(kb.ArrowDown))
	if at := active(); !strings.HasPrefix(at, "host_to_device_memcpy_ce/cuda:1/16KiB") {
		t.Errorf("the arrow moves to %q", at)
	}
	// In a matrix, by rows and columns.
	cell := func() string {
		return eval[string](p, `(() => { const c = document.activeElement.closest("td"); return c.closest("tr").rowIndex + "," + c.cellIndex; })()`)
	}
	eval[bool](p, `document.querySelector("#pairs-matrix .view:not([hidden]) tr:nth-child(2) [tabindex]").focus(), true`)
	equal(t, "cell", cell(), "2,1")
	p.do(chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowDown))
	if at := cell(); at == "2,1" || at[:2] == "2," {
		t.Errorf("the arrows moved to %s in the matrix", at)
	}
	// Enter sorts.
	eval[bool](p, `document.querySelector("#cases-table thead th button").focus(), true`)
	p.do(chromedp.KeyEvent(kb.Enter))
	equal(t, "sorted", eval[string](p, `document.querySelector("#cases-table th[aria-sort]").ariaSort`), "ascending")
}

func TestSwitches(t *testing.T) {
	p := open(t, "full", desk)
	view := func() string {
		return eval[string](p, `document.querySelector("#pairs-matrix .view:not([hidden]) caption").textContent`)
	}
	equal(t, "view", view(), "Pairs of devices: bandwidth")
	p.do(chromedp.Click(`#pairs-matrix .views label:nth-of-type(3)`, chromedp.ByQuery))
	equal(t, "view", view(), "Pairs of devices: mechanism")

	background := func() string { return eval[string](p, `getComputedStyle(document.body).backgroundColor`) }
	light := background()
	p.do(chromedp.Click(`.theme label:nth-of-type(3)`, chromedp.ByQuery))
	if background() == light {
		t.Error("the switch for dark changes nothing")
	}
	p.do(chromedp.Click(`.theme label:nth-of-type(2)`, chromedp.ByQuery))
	equal(t, "background", background(), light)

	at := p.middle(`.chart .legend button`)
	p.do(chromedp.MouseClickXY(at.X, at.Y))
	equal(t, "a hidden line", eval[bool](p, `document.querySelector(".chart .mark").getClientRects().length > 0`), false)

	// The download has the whole report.
	text := eval[string](p, `new Promise((done) => {
		URL.createObjectURL = (make => (blob) => { blob.text().then((t) => done("dlx\n" + t)); return make.call(URL, blob); })(URL.createObjectURL);
		HTMLAnchorElement.prototype.click = function () {};
		document.getElementById("download").click();
	})`)
	_, content, _ := strings.Cut(text, "\n")
	var r benchmarks.Report
	if err := json.Unmarshal([]byte(content), &r); err != nil {
		t.Fatal(err)
	}
	equal(t, "cases of the download", len(r.Cases), len(reporttest.Report().Cases))
	equal(t, "samples", len(r.Cases[0].Times), 60)
}
