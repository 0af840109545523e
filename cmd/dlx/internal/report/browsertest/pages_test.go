package browsertest

import (
	"fmt"
	"image/color"
	"testing"
)

// TestPagesAreShown opens every page on a desk and on a phone, in light and dark.
func TestPagesAreShown(t *testing.T) {
	for _, name := range pages {
		corners := map[color.Color]bool{}
		for _, s := range []screen{desk, night, phone} {
			t.Run(fmt.Sprintf("%s/%d/%s", name, s.width, s.scheme), func(t *testing.T) {
				p := open(t, name, s)
				if wide := eval[int64](p, `document.documentElement.scrollWidth`); wide > s.width {
					t.Errorf("the page is %d wide on a screen of %d; too wide: %s", wide, s.width, eval[string](p,
						`Array.from(document.querySelectorAll("body *")).filter(e => e.getBoundingClientRect().right > 360 && !e.closest(".scroll, nav")).slice(0, 4).map(e => e.outerHTML.slice(0, 120)).join("\n")`))
				}
				n, corner := p.colors()
				if n < 20 {
					t.Errorf("a screenshot with %d colours", n)
				}
				if s.width == desk.width {
					corners[corner] = true
				}
				if s == desk && name != "large" || s == phone && name == "plan" { // it takes seconds
					p.axe()
				}
			})
		}
		if len(corners) != 2 {
			t.Errorf("%s: light and dark have the backgrounds %v", name, corners)
		}
	}
}

// TestHostileText opens a report whose names and reasons are scripts.
func TestHostileText(t *testing.T) {
	p := open(t, "full", desk)
	equal(t, "title", eval[string](p, `document.title`), "dlx bench: NVIDIA H100 80GB HBM3, AMD EPYC 9554")
	equal(t, "images", eval[int](p, `document.images.length`), 0)
	equal(t, "scripts", eval[int](p, `document.scripts.length`), 2) // the data, and the page's own
	equal(t, "text", eval[bool](p, `document.getElementById("unmeasured-table").textContent.includes("<img src=x onerror=alert(1)>")`), true)
	// The policy would stop a script that came in.
	equal(t, "the policy", eval[bool](p, `(() => { const s = document.createElement("script"); s.textContent = "window.broken = true"; addEventListener("securitypolicyviolation", () => window.stopped = true); document.body.append(s); return !window.broken; })()`), true)
	p.mu.Lock()
	if len(p.bad) == 0 {
		t.Error("the browser did not report the script that the policy stopped")
	}
	p.bad = nil
	p.mu.Unlock()
}

// contrast returns the texts with less than the contrast that WCAG asks for.
const contrast = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
	const rgba = (c) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); return canvas.getImageData(0, 0, 1, 1).data; };
	const known = new Map(), read = (c) => { if (!known.has(c)) known.set(c, rgba(c)); return known.get(c); };
	const light = ([r, g, b]) => { const f = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = read(e.namespaceURI.endsWith("svg") ? "transparent" : getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255]; };
	const low = [];
	let n = 0;
	for (const e of document.querySelectorAll("body *")) {
		if (!Array.from(e.childNodes).some((c) => c.nodeType === 3 && c.textContent.trim()) || !e.checkVisibility() || e.closest(".skip, script")) continue;
		const style = getComputedStyle(e), svg = e.namespaceURI.endsWith("svg");
		const a = light(read(svg ? style.fill : style.color)), b = light(behind(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		n++;
		if (ratio < 4.5) low.push(ratio.toFixed(2) + " " + e.outerHTML.slice(0, 120));
	}
	return n < 30 ? ["only " + n + " texts"] : low.slice(0, 10);
})()`

func TestContrast(t *testing.T) {
	for _, s := range []screen{desk, night} {
		for _, name := range []string{"full", "plan", "devices"} {
			p := open(t, name, s)
			for view := range 3 {
				for _, low := range eval[[]string](p, contrast) {
					t.Errorf("%s, %s, view %d: %s", name, s.scheme, view, low)
				}
				if !eval[bool](p, fmt.Sprintf(`(() => { const i = document.querySelectorAll(".views input")[%d]; if (i) i.click(); return !!i; })()`, view+1)) {
					break
				}
			}
		}
	}
}
