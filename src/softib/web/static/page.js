// The page around the map: search, findings, the chosen node, a path, time.
import { steps, theme } from "./colours.js";
import { FabricMap } from "./map.js";
import { JobList } from "./jobs.js";
import { Tables } from "./tables.js";
import { $, ask, clock, counted, element, moment, octets } from "./ask.js";

const state = { drawn: -1, version: "", times: [], at: null, by: null, every: 2, findings: [] };
// For tests and for the browser's console.
window.softib = { state };

const row = (name) => state.row.get(name);
// What is asked of the time that the slider shows.
const then = (path) => state.at === null ? path : `${path}${path.includes("?") ? "&" : "?"}at=${state.at}`;

// ---- what is served, again and again

async function drawMap(at) {
  const doc = await ask(at === null ? "map" : `map?at=${at}`);
  state.row = new Map(doc.name.map((n, i) => [n, i]));
  state.byGuid = new Map(doc.guid.map((g, i) => [g, i]));
  state.drawn = doc.drawn;
  map.draw(doc);
}

async function refresh() {
  const { by, at } = state, job = by === "jobs" && jobs.name !== null ? `&job=${encodeURIComponent(jobs.name)}` : "";
  const path = then(`values?by=${by}`);
  const values = await ask(path + job).catch((error) => {
    if (!job) throw error;
    jobs.name = null;  // a job of another time
    return ask(path);
  });
  if (by !== state.by || at !== state.at) return;
  if (values.drawn !== state.drawn) {
    await drawMap(at);
    if (at !== state.at) return;
  }
  map.colour(by, octets(values.value), octets(values.node), octets(values.down));
  problem(values);
  legend(values.most);
  const version = `${values.version} ${at}`;
  if (version !== state.version) {
    state.version = version;
    await Promise.all([about(), findings()]);
    if (at !== state.at) return;
  }
  await Promise.all([times(values.time), tables.refresh()]);
  state.fresh = performance.now();
}

// Data that is old says its age.
function problem(values) {
  const age = values.stale ? `What is shown is ${Math.round(values.age_s).toLocaleString()} s old.` : "";
  $("problem").textContent = [values.problem, age].filter(Boolean).join(" · ");
  $("problem").hidden = !$("problem").textContent;
}

async function about() {
  const f = await ask("fabric");
  Object.assign(state, { running: f.running, timed: f.timed });
  $("name").textContent = f.name;
  document.title = `${f.name} · softib`;
  const manager = f.manager?.engine ? ` · ${f.manager.engine} on ${f.manager.node}, ${f.manager.state}` : "";
  $("counts").textContent = `${counted(f.switches, "switch", "switches")}, ${counted(f.hosts, "host")}, ${counted(f.cables, "cable")}${manager}`;
  $("tab-path").hidden = !f.paths;
  $("time").hidden = $("clock").hidden = !f.timed;
  $("views").querySelector('[data-view="events"]').hidden = !f.running;
  for (const by of ["load", "wait", "errors"]) $("by").querySelector(`[value="${by}"]`).hidden = !f.timed;
  // A file has no load: it opens on what is wrong with it.
  if (state.by === null) state.by = $("by").value = f.timed ? "load" : "findings";
  $("tab-jobs").hidden = f.jobs === null;
  $("by").querySelector('[value="jobs"]').hidden = f.jobs === null;
  if (f.jobs !== null) await jobs.read(then);
}

async function times(shown) {
  const { time, every_s } = await ask("times");
  state.times = time;
  state.every = every_s;
  const slider = $("time");
  // The right end is now: of a fabric that is read again and again its last round, of a file a step after the history.
  slider.max = Math.max(0, time.length - (state.running ? 1 : 0));
  if (state.at === null) slider.value = slider.max;
  $("clock").textContent = state.at === null && (state.running || !shown) ? "now" : moment(shown ?? state.at);
}

function legend(most) {
  const words = { load: ["idle", "full"], wait: ["none", "all the time"], jobs: ["none", "shared"],
    errors: ["none", most >= 1 ? counted(Math.round(most), "error") : "none"], findings: ["none", "error"] }[state.by];
  $("legend").replaceChildren(element("span", words[0]), ...steps(state.by).map((c) => {
    const box = element("i");
    box.style.background = c;
    return box;
  }), element("span", words[1]));
}

// ---- findings

async function findings() {
  const { at } = state;
  const [{ total, rows }, down] = await Promise.all([ask(then("findings?limit=200")), ask(then("down?limit=1000"))]);
  if (at !== state.at) return;
  state.findings = rows;
  const shown = rows.map((f, i) => {
    const button = element("button", "", { class: `finding ${f.severity}`, "data-finding": i, type: "button" });
    button.append(element("b", f.message), element("span", `${f.severity} · ${f.code}`), element("span", f.advice));
    return button;
  });
  const more = total > rows.length ? [element("p", `${total - rows.length} more: softib check`, { class: "hint" })] : [];
  // A cable that a finding names, or whose device is gone, is shown there.
  const own = down.rows.filter((d) => !d.named);
  const lost = own.slice(0, 100).map((d) => {
    const button = element("button", "", { class: "finding lost", "data-guids": d.guids.join(" "), type: "button" });
    button.append(element("b", d.b === null ? `${d.a} is gone` : `${d.a} – ${d.b} is down`), element("span", `since ${moment(d.since)}`));
    return button;
  });
  $("findings").replaceChildren(...lost, ...(shown.length || lost.length ? shown : [element("p", "Nothing was found.", { class: "hint" })]), ...more);
  const all = total + own.length + down.total - down.rows.length;
  $("tab-findings").textContent = all ? `Findings ${all.toLocaleString()}` : "Findings";
}

$("findings").addEventListener("click", (event) => {
  const button = event.target.closest("[data-finding]");
  const lost = event.target.closest("[data-guids]");
  if (lost) {
    const ends = lost.dataset.guids.split(" ").map((g) => state.byGuid.get(g.slice(2))).filter((i) => i !== undefined);
    map.mark(ends);
    map.show(ends);
  }
  if (!button) return;
  const nodes = state.findings[button.dataset.finding].where.map((w) => state.byGuid.get(w.guid.slice(2))).filter((i) => i !== undefined);
  map.mark(nodes);
  map.show(nodes);
});

// ---- one node

async function choose(i) {
  try {
    await showNode(i);
  } catch (error) {
    $("node").replaceChildren(element("h2", map.doc.name[i]), element("p", error.message, { role: "alert" }));
  }
}

// A group of nodes that is drawn as one.
function chooseGroup(name, rows) {
  if (picking()) return;  // it comes near, and a node of it can be clicked
  tab("node");
  const switches = rows.filter((i) => map.doc.kind[i] === 0), list = element("ul");
  for (const i of switches.slice(0, 100)) {
    const line = element("li"), button = element("button", map.doc.name[i], { type: "button", "data-row": i });
    line.append(button);
    list.append(line);
  }
  const more = switches.length > 100 ? [element("p", `${switches.length - 100} more`, { class: "hint" })] : [];
  $("node").replaceChildren(element("h2", name), list, ...more);
}

$("node").addEventListener("click", (event) => {
  const button = event.target.closest("[data-row]");
  if (button) goTo(Number(button.dataset.row));
});

async function showNode(i) {
  const name = map.doc.name[i];
  map.mark([i]);
  tab("node");
  const guid = `0x${map.doc.guid[i]}`;
  // Counters are those of the last round: of an earlier time only its cables are known.
  const [ports, counters] = await Promise.all([ask(then(`ports?node=${guid}&limit=256`)), state.at === null ? ask(`counters?node=${guid}&limit=256`) : { rows: [] }]);
  const head = element("h2", name), about = element("p", `${["switch", "adapter", "router"][map.doc.kind[i]]} · ${guid}`, { class: "hint" });
  const table = element("table");
  table.append(element("thead"), element("tbody"));
  const title = element("tr");
  for (const t of ["port", "to", "rate", "LID", "errors"]) title.append(element("th", t));
  table.tHead.append(title);
  ports.rows.forEach((p, k) => {
    const line = element("tr", "", { "data-port": p.port }), c = counters.rows[k] ?? {};
    const errors = Object.entries(c).filter(([n, v]) => v && (/error|down|discards|dropped|recovery/.test(n))).map(([n, v]) => `${n} ${v}`);
    const far = p.peer_guid === null ? undefined : state.byGuid.get(p.peer_guid.slice(2)), peer = element("td", p.peer ?? (p.port ? p.phys_state.toLowerCase() : ""));
    if (far !== undefined) peer.replaceChildren(element("button", `${map.doc.name[far]}${p.peer.match(/\[\d+\]$/)}`, { type: "button", class: "place", "data-row": far }));
    for (const t of [p.port, peer, p.speed ? `${p.lanes}x ${p.speed}` : "", p.lid || "", errors.join(", ")]) line.append(t === peer ? peer : element("td", t));
    table.tBodies[0].append(line);
  });
  const chart = element("div", "", { id: "chart" });
  $("node").replaceChildren(head, about, chart, table);
  table.addEventListener("click", (event) => {
    const line = event.target.closest("[data-port]");
    if (line && state.timed && !event.target.closest("[data-row]")) history(guid, line.dataset.port);
  });
  const first = ports.rows.find((p) => p.peer);
  if (first && state.timed) history(guid, first.port);
}

async function history(guid, portnum) {
  const h = await ask(`history?node=${guid}&portnum=${portnum}`);
  if (!$("chart")) return;
  if (h.time.length < 2) { $("chart").replaceChildren(element("p", `Port ${portnum}: no history yet.`, { class: "hint" })); return; }
  const told = h.time.map((t, k) => k).filter((k) => h.load[k] !== null);
  if (told.length < 2) { $("chart").replaceChildren(element("p", `Port ${portnum}: its load is unknown.`, { class: "hint" })); return; }
  const from = h.time[0], span = h.time.at(-1) - from, most = told.reduce((a, k) => Math.max(a, h.load[k]), 0.01);
  const points = told.map((k) => `${((h.time[k] - from) / span * 300).toFixed(1)} ${(60 - h.load[k] / most * 55).toFixed(1)}`);
  $("chart").innerHTML = `<svg class="chart" viewBox="0 0 300 62" preserveAspectRatio="none" role="img"><path d="M${points.join("L")}"/></svg>`;
  $("chart").prepend(element("p", `Port ${portnum}: load, at most ${(most * 100).toFixed(1)} % of the link, ${clock(from)} to ${clock(h.time.at(-1))}`, { class: "hint" }));
}

// ---- a path

// With the form open, a click on the map says from where, the next one to where.
const picking = () => !$("path").hidden;
let picked = null;
function pick(i) {
  const is = map.doc.name[i];
  if (picked === null) {
    [$("from").value, $("to").value] = [is, ""];
    $("answer").replaceChildren(element("p", "Now the other end.", { class: "hint" }));
    picked = i;
    map.mark([i]);
  } else {
    $("to").value = is;
    picked = null;
    $("explain").requestSubmit();
  }
}

// What the server knows a node by: names on the map may have a GUID behind them, to tell two of one name apart.
function known(place) {
  const [, node, port] = place.match(/^(.*?)(\[\d+\])?$/s), i = row(place) ?? row(node);
  return i === undefined ? place : `0x${map.doc.guid[i]}${row(place) === undefined ? port ?? "" : ""}`;
}

$("explain").addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = $("answer");
  try {
    const p = await ask(`path?a=${encodeURIComponent(known($("from").value))}&b=${encodeURIComponent(known($("to").value))}`);
    const list = element("ol");
    for (const h of p.hops) list.append(element("li", `${h.node} port ${h.out_port} → ${h.to}, VL ${h.vl}${h.alternatives.length ? `; ${h.alternatives.length} other way${h.alternatives.length > 1 ? "s" : ""}` : ""}`));
    const of = state.at === null ? "" : " · by the tables of now";
    answer.replaceChildren(element("p", `${p.engine}, SL ${p.sl}${of}${p.ended ? ` · ${p.ended}` : ""}`, { class: "hint" }), list,
      ...[...p.reasons, ...p.changes].map((r) => element("p", r)));
    const names = p.hops.flatMap((h) => [h.node, h.to]);
    const nodes = [...new Set(names)].map(row).filter((i) => i !== undefined);
    map.mark(nodes, p.hops.map((h) => [row(h.node), row(h.to)]).filter(([a, b]) => a !== undefined && b !== undefined));
    map.show(nodes);
  } catch (error) {
    answer.replaceChildren(element("p", error.message, { role: "alert" }));
  }
});

// ---- search

let hits = [], chosen = 0;
function showHits() {
  $("hits").replaceChildren(...hits.map((h, i) => element("li", h.name, { role: "option", "data-hit": i, "aria-selected": i === chosen })));
  $("hits").hidden = !hits.length;
  $("search").setAttribute("aria-expanded", String(hits.length > 0));
}
$("search").addEventListener("input", async () => {
  const q = $("search").value.trim();
  const found = q ? (await ask(`search?q=${encodeURIComponent(q)}`)).rows : [];
  if (q !== $("search").value.trim()) return;
  [hits, chosen] = [found, 0];
  showHits();
});
$("search").addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") chosen = Math.min(hits.length - 1, chosen + 1);
  else if (event.key === "ArrowUp") chosen = Math.max(0, chosen - 1);
  else if (event.key === "Enter" && hits[chosen]) return goTo(hits[chosen].row);
  else if (event.key === "Escape") { hits = []; $("search").blur(); }
  else return;
  event.preventDefault();
  showHits();
});
$("hits").addEventListener("mousedown", (event) => {
  const line = event.target.closest("[data-hit]");
  if (line) goTo(hits[line.dataset.hit].row);
});
function goTo(i) {
  hits = [];
  showHits();
  choose(i);
  map.show([i]);
}

// ---- the rest

function tab(name) {
  for (const t of ["findings", "node", "path", "jobs"]) {
    $(t).hidden = t !== name;
    $(`tab-${t}`).setAttribute("aria-selected", String(t === name));
  }
}
for (const t of ["findings", "node", "path", "jobs"]) $(`tab-${t}`).addEventListener("click", () => tab(t));
$("by").addEventListener("change", () => { state.by = $("by").value; refresh(); });
// While the slider is dragged the server is asked for the times at which it rests.
let resting;
$("time").addEventListener("input", () => {
  const last = Number($("time").value) >= Number($("time").max);
  state.at = last ? null : state.times[$("time").value];
  $("clock").textContent = last ? "now" : moment(state.at);
  clearTimeout(resting);
  resting = setTimeout(() => refresh().catch(silent), 80);
});
$("theme").addEventListener("click", () => {
  setTheme(theme() === "dark" ? "light" : "dark");
  localStorage.setItem("softib-theme", theme());
  map.recolour();
  refresh();
  if (!$("tab-jobs").hidden) jobs.read(then);
});
document.addEventListener("keydown", (event) => {
  if (["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName)) return;
  if (event.key === "/") { $("search").focus(); event.preventDefault(); }
  else if (event.key === "Escape") { picked = null; map.mark([]); }
  else if (map.key(event.key)) event.preventDefault();
});
function setTheme(name) { document.documentElement.dataset.theme = name; }

document.documentElement.classList.toggle("bare", new URLSearchParams(location.search).has("bare"));
setTheme(localStorage.getItem("softib-theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
const map = new FabricMap($("map"), (i, near) => picking() ? near && pick(i) : choose(i), chooseGroup);
const jobs = new JobList(() => {
  state.by = $("by").value = "jobs";
  refresh();
});
const tables = new Tables(then, (guid) => {
  const i = state.byGuid?.get(guid);
  if (i === undefined) return;
  choose(i);
  map.show([i]);
});
Object.assign(window.softib, { map, tables });
function silent(error) {
  $("problem").hidden = false;
  $("problem").textContent = `The server does not answer: ${error.message}`;
}
async function live() {
  await (state.by === null ? about().then(refresh) : refresh()).catch(silent);
  setTimeout(live, state.every * 1000);
}
// A page that has the map inside (the report) says which node to show.
const named = () => location.hash.match(/^#node-([0-9a-f]{16})$/);
async function shown() {
  const i = named() && state.byGuid?.get(named()[1]);
  if (i === undefined || i === null) return;
  map.mark([i]);
  map.show([i]);
}
window.addEventListener("hashchange", shown);
if (typeof Sigma === "undefined") {
  $("problem").hidden = false;
  $("problem").textContent = "The libraries that draw the map are not installed: make web in a checkout gets them (it needs npm). REST is at /api/v1, described by /api/openapi.json.";
} else live().then(shown);
