"use strict";
(() => {
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const root = document.documentElement;
  const visible = (e) => e.getClientRects().length > 0; // checkVisibility is true for SVG that is not displayed

  // What only a script can do is not shown without it.
  for (const e of all(".theme, .filter, .views")) e.hidden = false;

  // Colours. A file opened from a disk may have no storage.
  const store = (value) => { try { if (value === undefined) return localStorage.getItem("dlx-theme"); localStorage.setItem("dlx-theme", value); } catch { return ""; } };
  const paint = (theme) => { if (theme) root.dataset.theme = theme; else delete root.dataset.theme; };
  const chosen = store();
  for (const input of all(".theme input")) {
    if (chosen && input.value === chosen) { input.checked = true; paint(chosen); }
    input.addEventListener("change", () => { paint(input.value); store(input.value); });
  }

  // Tooltips: the label of what the pointer is on, or of what has the focus.
  const tip = document.getElementById("tip");
  const labelled = (e) => e.target instanceof Element ? e.target.closest("[role=img][aria-label], [role=listitem][aria-label]") : null;
  let shown = null;
  const show = (e, at) => {
    shown = e;
    tip.textContent = e.getAttribute("aria-label");
    tip.hidden = false;
    const box = e.getBoundingClientRect(), own = tip.getBoundingClientRect();
    const x = at ? at.clientX : box.left + box.width / 2, y = at ? at.clientY : box.top;
    tip.style.left = Math.max(8, Math.min(x - own.width / 2, innerWidth - own.width - 8)) + "px";
    tip.style.top = (y - own.height - 12 > 0 ? y - own.height - 12 : (at ? y : box.bottom) + 16) + "px";
  };
  const hide = () => { shown = null; tip.hidden = true; };
  document.addEventListener("pointermove", (e) => { const t = labelled(e); if (t) show(t, e); else if (shown && shown !== document.activeElement) hide(); });
  document.addEventListener("click", (e) => { const t = labelled(e); if (t) show(t, e); else hide(); });
  document.addEventListener("focusin", (e) => { const t = labelled(e); if (t) show(t); else hide(); });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (e) => { if (e.key === "Escape") hide(); });
  document.addEventListener("scroll", () => { if (shown === document.activeElement && shown) show(shown); else hide(); }, true);

  // One stop of Tab for a chart, a matrix or a picture; the arrow keys move inside.
  for (const area of all("[data-roving]")) {
    const items = () => all("[tabindex][aria-label]", area).filter(visible);
    const first = items()[0];
    if (!first && area.closest("[hidden]") === null) continue;
    const enter = (item) => { for (const i of all("[tabindex='0'][aria-label]", area)) i.tabIndex = -1; item.tabIndex = 0; };
    const start = all("[tabindex][aria-label]", area)[0];
    if (start) enter(start);
    area.addEventListener("focusin", (e) => { const t = labelled(e); if (t && t.hasAttribute("tabindex")) enter(t); });
    area.addEventListener("keydown", (e) => {
      const list = items(), at = list.indexOf(document.activeElement);
      if (at < 0) return;
      const cell = list[at].closest("td");
      let next;
      if (cell && (e.key === "ArrowUp" || e.key === "ArrowDown")) {
        const rows = all("tr", area), column = cell.cellIndex;
        for (let r = rows.indexOf(cell.parentElement), d = e.key === "ArrowUp" ? -1 : 1; rows[r += d] && !next;) next = rows[r].cells[column].querySelector("[tabindex]");
      } else if (area.dataset.roving === "points" && (e.key === "ArrowUp" || e.key === "ArrowDown")) {
        // To the point of another line that is nearest.
        const own = list[at].parentElement, middle = (i) => { const b = i.getBoundingClientRect(); return b.left + b.width / 2; };
        const lines = [...new Set(list.map((i) => i.parentElement))];
        const line = lines[(lines.indexOf(own) + (e.key === "ArrowUp" ? lines.length - 1 : 1)) % lines.length];
        next = list.filter((i) => i.parentElement === line).sort((a, b) => Math.abs(middle(a) - middle(list[at])) - Math.abs(middle(b) - middle(list[at])))[0];
      } else if (e.key === "ArrowRight" || e.key === "ArrowDown") next = list[at + 1];
      else if (e.key === "ArrowLeft" || e.key === "ArrowUp") next = list[at - 1];
      else if (e.key === "Home") next = list[0];
      else if (e.key === "End") next = list[list.length - 1];
      else return;
      e.preventDefault();
      if (next) next.focus();
    });
  }

  // Legends show and hide lines.
  for (const chart of all(".chart")) for (const button of all(".legend button", chart)) button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", on);
    const line = chart.querySelector(`g[data-series="${button.dataset.series}"]`);
    line.style.display = on ? "" : "none";
    const points = all("[tabindex][aria-label]", chart);
    for (const p of points) p.tabIndex = -1;
    const first = points.find(visible);
    if (first) first.tabIndex = 0;
  });

  // Views of a matrix.
  for (const matrix of all(".matrix")) {
    const views = all(".view", matrix);
    const pick = (value) => { for (const v of views) v.hidden = v.dataset.view !== value; };
    for (const input of all(".views input", matrix)) input.addEventListener("change", () => pick(input.value));
    if (views.length > 1) pick("0");
  }

  // The connections of a node.
  for (const svg of all(".graph svg")) {
    const pick = (name) => {
      svg.classList.toggle("picked", name !== null);
      const near = new Set([name]);
      for (const e of all(".edge[data-from]", svg)) {
        const on = e.dataset.from === name || e.dataset.to === name;
        e.classList.toggle("on", on);
        if (on) near.add(e.dataset.from).add(e.dataset.to);
      }
      for (const n of all(".node", svg)) n.classList.toggle("on", name !== null && near.has(n.dataset.node));
    };
    for (const node of all(".node", svg)) {
      node.addEventListener("pointerenter", () => pick(node.dataset.node));
      node.addEventListener("pointerleave", () => pick(null));
      node.addEventListener("focus", () => pick(node.dataset.node));
      node.addEventListener("blur", () => pick(null));
    }
  }

  // Tables: sorting by a click on a heading, filtering by text and by group.
  for (const table of all("table.data")) {
    const body = table.tBodies[0], rows = Array.from(body.rows), heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, column) => {
      if (head.classList.contains("n")) for (const r of rows) r.cells[column].classList.add("n");
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      if (head.title) { button.title = head.title; head.removeAttribute("title"); }
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending" || (head.classList.contains("n") && !head.hasAttribute("aria-sort"));
        for (const h of heads) h.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (r) => { const c = r.cells[column]; return c.dataset.v === undefined ? c.textContent : Number(c.dataset.v); };
        const empty = (k) => k === "" || k === "-";
        const order = (a, b) => {
          const x = key(a), y = key(b);
          if (empty(x) || empty(y)) return empty(x) - empty(y); // at the end, whichever way
          const d = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
          return down ? -d : d;
        };
        body.append(...rows.slice().sort(order));
      });
    });
    const part = table.closest(".part"), text = part.querySelector("[data-filter]");
    if (!text) continue;
    const group = part.querySelector("[data-group]"), count = part.querySelector("output");
    const content = new Map(rows.map((r) => [r, r.textContent.toLowerCase()]));
    const filter = () => {
      const words = text.value.toLowerCase().split(/\s+/);
      let n = 0;
      for (const r of rows) {
        r.hidden = !(words.every((w) => content.get(r).includes(w)) && (!group || !group.value || r.dataset.g === group.value));
        if (!r.hidden) n++;
      }
      count.textContent = `${n} of ${rows.length}`;
    };
    text.addEventListener("input", filter);
    if (group) group.addEventListener("change", filter);
    filter();
  }

  // The data, which the page keeps compressed.
  const button = document.getElementById("download");
  if (button && typeof DecompressionStream !== "undefined") {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const packed = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0));
      const data = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).blob();
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([data], { type: "application/json" }));
      link.download = button.dataset.name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
  }
})();
