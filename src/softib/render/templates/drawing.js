// The drawing: colours, zoom (it changes the size, so that the browser pans), keyboard, search, and the selected node.
const stage = document.getElementById("stage");
const live = document.getElementById("live");
const svg = stage && stage.querySelector("svg.fabric");
const boxes = svg ? Array.from(svg.querySelectorAll("[data-box]")) : [];
const chosen = document.getElementById("chosen");
const membersOf = boxes.map(() => []);
D.box.forEach((b, n) => { if (b >= 0 && membersOf[b]) { membersOf[b].push(n); } });
let zoom = 1;

function show(view) {
  document.querySelectorAll("[data-view]").forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.view === view)));
  svg.classList.remove("by-load", "by-speed", "by-fault");
  svg.classList.add(view);
  document.querySelectorAll("#fabric .legend").forEach((l) => { l.hidden = !l.classList.contains(view); });
}
// Zoom so that the point (x, y) of the stage keeps its position.
function zoomTo(wanted, x, y) {
  const before = zoom;
  zoom = Math.min(12, Math.max(1, wanted));
  const left = stage.scrollLeft + x, top = stage.scrollTop + y;
  svg.style.width = zoom * 100 + "%";
  stage.scrollLeft = left * zoom / before - x;
  stage.scrollTop = top * zoom / before - y;
}
function zoomBy(factor) { zoomTo(zoom * factor, stage.clientWidth / 2, stage.clientHeight / 2); }
function into(box) {
  const at = box.getBoundingClientRect(), frame = stage.getBoundingClientRect();
  stage.scrollLeft += at.left + at.width / 2 - frame.left - frame.width / 2;
  stage.scrollTop += at.top + at.height / 2 - frame.top - frame.height / 2;
}
function focusBox(box) {
  boxes.forEach((b) => b.setAttribute("tabindex", b === box ? "0" : "-1"));
  box.focus({ preventScroll: true });
  into(box);
}
// Return the nearest box in the direction of an arrow key.
function neighbour(box, dx, dy) {
  const middle = (b) => { const r = b.querySelector("rect"); return [+r.getAttribute("x") + r.getAttribute("width") / 2, +r.getAttribute("y")]; };
  const here = middle(box);
  let best = null, least = Infinity;
  boxes.forEach((b) => {
    const there = middle(b), x = there[0] - here[0], y = there[1] - here[1];
    const along = x * dx + y * dy, aside = Math.abs(x * dy) + Math.abs(y * dx);
    if (b === box || along <= 1 || (dx && aside > along)) { return; }
    const far = along + 2 * aside;
    if (far < least) { least = far; best = b; }
  });
  return best;
}
function mark(numbers, lines) {
  if (!svg) { return; }
  boxes.forEach((b) => b.classList.toggle("hit", numbers.has(+b.dataset.box)));
  svg.querySelectorAll("path[data-ends]").forEach((p) => p.classList.toggle("hit", lines(p.dataset.ends.split(" ").map(Number), p)));
  svg.classList.toggle("marked", numbers.size > 0);
}
function tell(...children) {
  chosen.replaceChildren(node("button", { class: "close", "aria-label": "close", onclick: unchoose }, "×"), ...children);
  chosen.hidden = false;
}
function unchoose() { chosen.hidden = true; mark(new Set(), () => false); }
function told(n) {
  const rows = [D.kind[n] ? KINDS[D.kind[n]] : D.tier[n] ? D.tiers[D.tier[n]] + " switch" : "switch " + D.tiers[0], "GUID 0x" + D.guid[n]];
  if (D.lid[n]) { rows.push("LID " + D.lid[n]); }
  return rows.concat(count(cablesOf[n].length, "cable") + " in " + count(D.ports[n], "port")).join(" · ");
}
function findingRows(n) {
  return findingsOf[n].map((f) => {
    const row = document.querySelectorAll("#findings-table tbody tr")[f];
    return node("li", {}, node("span", { class: "sev " + SEVERITIES[D.severity[f]] }, SEVERITIES[D.severity[f]]), " ", row.cells[2].firstChild.textContent);
  });
}
function cableTable(cables, n, port) {
  const rows = cables.slice().sort((c, d) => farEnd(c, n)[2] - farEnd(d, n)[2]).slice(0, 200).map((c) => {
    const end = farEnd(c, n);
    return node("tr", end[2] === port ? { class: "here" } : {}, node("td", { class: "num" }, String(end[2])), node("td", {}, nodeButton(end[0], end[1])),
      node("td", {}, D.cable.rates[D.cable.rate[c]]), node("td", { class: "num" }, load(end[3])), node("td", { class: "num" }, load(end[4])));
  });
  const heads = ["Port", "Leads to", "Rate", "Load out", "Load in"].map((h, i) => node("th", i === 1 || i === 2 ? {} : { class: "num" }, h));
  return node("div", { class: "scroll" }, node("table", {}, node("thead", {}, node("tr", {}, ...heads)), node("tbody", {}, ...rows)));
}
// Show node n (and its port): in the drawing, and as text below it.
function choose(n, port) {
  if (n < 0 || !chosen) { return; }
  const numbers = new Set(switchesOf(n).map((s) => D.box[s]));
  const own = D.box[switchesOf(n)[0]], there = cablesOf[n].filter((c) => farEnd(c, n)[2] === port).map((c) => D.box[farEnd(c, n)[0]]);
  there.forEach((b) => { if (b >= 0) { numbers.add(b); } });
  // For a port without a cable: the missing cables that findings name.
  mark(numbers, (ends, line) => (!port ? ends.includes(own) && D.kind[n] === 0 : there.length ? ends.every((e) => numbers.has(e)) : ends.includes(own) && line.classList.contains("ghost")));
  tell(node("h3", {}, D.name[n] + (port ? "[" + port + "]" : "")), node("p", {}, told(n)),
    node("ul", { class: "plain" }, ...findingRows(n)), cableTable(cablesOf[n], n, port));
  const here = chosen.querySelector(".here"), list = chosen.querySelector(".scroll");
  if (here) { list.scrollTop = here.offsetTop - list.clientHeight / 2; }
  if (boxes[own]) { focusBox(boxes[own]); }
  if (live) { live.contentWindow.location.hash = "node-" + D.guid[n]; }
  (stage || live).scrollIntoView({ block: "center" });
  if (history.replaceState) { history.replaceState(null, "", "#node-" + D.guid[n] + (port ? "-" + port : "")); }
}
function chooseBox(box) {
  const members = membersOf[+box.dataset.box];
  if (members.length === 1) { choose(members[0], 0); return; }
  mark(new Set([+box.dataset.box]), (ends) => ends.includes(+box.dataset.box));
  tell(node("h3", {}, members.length.toLocaleString("en") + " switches in this box"),
    node("p", { class: "many" }, ...members.slice().sort((a, b) => byNames(D.name[a], D.name[b])).map((n) => nodeButton(n, 0))));
}
function chooseLine(line) {
  const ends = line.dataset.ends.split(" ").map(Number);
  mark(new Set(ends), (e) => e[0] === ends[0] && e[1] === ends[1]);
  const first = new Set(membersOf[ends[0]]), second = new Set(membersOf[ends[1]]), rows = [];
  first.forEach((n) => cablesOf[n].forEach((c) => { const e = farEnd(c, n); if (second.has(e[0])) { rows.push([n, c]); } }));
  const list = rows.slice(0, 200).map(([n, c]) => { const e = farEnd(c, n); return node("tr", {}, node("td", {}, nodeButton(n, e[2])), node("td", {}, nodeButton(e[0], e[1])),
    node("td", {}, D.cable.rates[D.cable.rate[c]]), node("td", { class: "num" }, load(e[3])), node("td", { class: "num" }, load(e[4]))); });
  const heads = ["From", "To", "Rate", "Load", "Load back"].map((h, i) => node("th", i > 2 ? { class: "num" } : {}, h));
  tell(node("h3", {}, line.querySelector("title").textContent), node("div", { class: "scroll" }, node("table", {}, node("thead", {}, node("tr", {}, ...heads)), node("tbody", {}, ...list))));
}

if (svg) {
  document.querySelectorAll("[data-view]").forEach((b) => b.addEventListener("click", () => show(b.dataset.view)));
  show(document.querySelector("[data-view][aria-pressed=true]").dataset.view);
  document.getElementById("zoom-in").addEventListener("click", () => zoomBy(1.5));
  document.getElementById("zoom-out").addEventListener("click", () => zoomBy(1 / 1.5));
  document.getElementById("zoom-all").addEventListener("click", () => zoomTo(1, 0, 0));
  stage.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey) { return; }
    e.preventDefault();
    const frame = stage.getBoundingClientRect();
    zoomTo(zoom * Math.exp(-e.deltaY / 300), e.clientX - frame.left, e.clientY - frame.top);
  }, { passive: false });
  // Only a mouse needs code to drag; for a finger, the browser scrolls.
  let from = null, dragged = false;
  stage.addEventListener("pointerdown", (e) => { dragged = false; from = e.pointerType === "mouse" && e.button === 0 ? [e.clientX, e.clientY, stage.scrollLeft, stage.scrollTop] : null; });
  window.addEventListener("pointermove", (e) => {
    if (!from) { return; }
    dragged = dragged || Math.hypot(e.clientX - from[0], e.clientY - from[1]) > 4;
    stage.scrollLeft = from[2] - (e.clientX - from[0]);
    stage.scrollTop = from[3] - (e.clientY - from[1]);
  });
  window.addEventListener("pointerup", () => { from = null; });
  svg.addEventListener("click", (e) => {
    if (dragged) { return; }
    const box = e.target.closest("[data-box]"), line = e.target.closest("path[data-ends]");
    if (box) { chooseBox(box); focusBox(box); } else if (line) { chooseLine(line); } else { unchoose(); }
  });
  svg.addEventListener("keydown", (e) => {
    const box = e.target.closest("[data-box]"), way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    if (e.ctrlKey || e.metaKey || e.altKey) { return; }
    if (box && way) { const next = neighbour(box, way[0], way[1]); if (next) { focusBox(next); } }
    else if (box && (e.key === "Enter" || e.key === " ")) { chooseBox(box); }
    else if (e.key === "+" || e.key === "=") { zoomBy(1.5); }
    else if (e.key === "-") { zoomBy(1 / 1.5); }
    else if (e.key === "0") { zoomTo(1, 0, 0); }
    else if (e.key === "Escape") { unchoose(); }
    else { return; }
    e.preventDefault();
  });
  const find = document.getElementById("find"), found = document.getElementById("found");
  const search = () => {
    const terms = find.value.toLowerCase().split(/\s+/).filter(Boolean), hits = [];
    for (let n = 0; terms.length && n < D.name.length; n++) {
      const text = D.name[n].toLowerCase() + " " + D.guid[n];
      if (terms.every((w) => text.includes(w))) { hits.push(n); }
    }
    // Nodes whose whole name matches come first, then those whose name begins with the text; then by name.
    const rank = (n) => { const t = D.name[n].toLowerCase(), w = terms.join(" "); return t === w ? 0 : t.startsWith(w) ? 1 : 2; };
    hits.sort((a, b) => rank(a) - rank(b) || byNames(D.name[a], D.name[b]));
    found.replaceChildren(...hits.slice(0, 12).map((n) => nodeButton(n, 0)));
    if (terms.length) { found.append(node("span", { class: "muted" }, hits.length ? count(hits.length, "node") : "no node of this name or GUID")); }
    return hits;
  };
  find.addEventListener("input", search);
  find.addEventListener("keydown", (e) => { if (e.key === "Enter") { const hits = search(); if (hits.length) { choose(hits[0], 0); } } });
}
