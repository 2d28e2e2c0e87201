// Sortable tables. A row is an index into the columns of D; only visible rows become elements.
const PAGE = 100;
const grid = document.getElementById("grid");
const COLUMNS = {
  switches: [["Name", "node", (n) => [n, 0]], ["Tier", "text", (n) => (D.tier[n] < 0 ? "" : D.tiers[D.tier[n]]), (n) => D.tier[n]], ["LID", "num", (n) => D.lid[n]],
    ["GUID", "code", (n) => "0x" + D.guid[n]], ["Ports", "num", (n) => D.ports[n]], ["Hosts", "num", (n) => hostsOf[n]],
    ["Switch links", "num", (n) => cablesOf[n].length - othersOf[n]], ["Free ports", "num", (n) => freeOf[n]], ["Busiest link", "load", (n) => busiestOf(n)],
    ["Findings", "num", (n) => findingsOf[n].length]],
  hosts: [["Name", "node", (r) => r], ["LID", "num", (r) => D.lid[r[0]]], ["GUID", "code", (r) => "0x" + D.guid[r[0]]],
    ["On switch", "node", (r) => endOf(r)], ["Rate", "text", (r) => D.cable.rates[D.cable.rate[r[2]]], (r) => D.cable.gbps[D.cable.rate[r[2]]]], ["Findings", "num", (r) => findingsOf[r[0]].length]],
  ports: [["Port", "node", (r) => r], ["Leads to", "node", (r) => (r[2] < 0 ? null : endOf(r))], ["Rate", "text", (r) => (r[2] < 0 ? "free" : D.cable.rates[D.cable.rate[r[2]]]), (r) => (r[2] < 0 ? -1 : D.cable.gbps[D.cable.rate[r[2]]])],
    ["Load out", "load", (r) => (r[2] < 0 ? -1 : farEnd(r[2], r[0])[3])], ["Load in", "load", (r) => (r[2] < 0 ? -1 : farEnd(r[2], r[0])[4])]],
  cables: [["End", "node", (c) => [D.cable.a[c], D.cable.ap[c]]], ["Other end", "node", (c) => [D.cable.b[c], D.cable.bp[c]]], ["Rate", "text", (c) => D.cable.rates[D.cable.rate[c]], (c) => D.cable.gbps[D.cable.rate[c]]],
    ["Load", "load", (c) => D.cable.out[c]], ["Load back", "load", (c) => D.cable.back[c]]],
};
const hostsOf = D.name.map((_, n) => cablesOf[n].filter((c) => D.kind[farEnd(c, n)[0]] === 1).length);
const othersOf = D.name.map((_, n) => cablesOf[n].filter((c) => D.kind[farEnd(c, n)[0]] !== 0).length);
const freeOf = D.name.map((_, n) => D.ports[n] - cablesOf[n].reduce((sum, c) => sum + (D.cable.a[c] === D.cable.b[c] ? 2 : 1), 0));
function busiestOf(n) { return cablesOf[n].reduce((most, c) => Math.max(most, farEnd(c, n)[3]), -1); }
function endOf(row) { const e = farEnd(row[2], row[0]); return e[2] === row[1] ? [e[0], e[1]] : [row[0], e[2]]; }
const ROWS = {
  switches: () => D.name.map((_, n) => n).filter((n) => D.kind[n] === 0),
  hosts: () => D.name.map((_, n) => n).filter((n) => D.kind[n] === 1).flatMap((n) => cablesOf[n].map((c) => [n, farEnd(c, n)[2], c])),
  ports: () => D.name.flatMap((_, n) => {
    const at = new Map();
    cablesOf[n].forEach((c) => { if (D.cable.a[c] === n) { at.set(D.cable.ap[c], c); } if (D.cable.b[c] === n) { at.set(D.cable.bp[c], c); } });
    return Array.from({ length: D.ports[n] }, (_, i) => [n, i + 1, at.has(i + 1) ? at.get(i + 1) : -1]);
  }),
  cables: () => D.cable.a.map((_, c) => c),
};
const made = {};
const state = { table: "switches", column: -1, down: false, shown: PAGE };

function cellText(column, row) {
  const value = column[2](row);
  if (column[1] === "node") { return value ? D.name[value[0]] + (value[1] ? "[" + value[1] + "]" : "") : "–"; }
  return column[1] === "load" ? load(value) : column[1] === "num" && typeof value === "number" ? value.toLocaleString("en") : String(value);
}
function sortKey(column, row) {
  const key = column[3] || column[2];
  return column[1] === "node" ? cellText(column, row) : key(row);
}
function currentRows() {
  const columns = COLUMNS[state.table], terms = document.getElementById("table-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  let rows = made[state.table] || (made[state.table] = ROWS[state.table]());
  if (terms.length) {
    rows = rows.filter((r) => { const text = columns.map((c) => cellText(c, r)).join(" ").toLowerCase(); return terms.every((w) => text.includes(w)); });
  }
  if (state.column >= 0) {
    const column = columns[state.column], turn = state.down ? -1 : 1;
    const keyed = rows.map((r, i) => [sortKey(column, r), i, r]);
    keyed.sort((a, b) => turn * (typeof a[0] === "number" ? a[0] - b[0] : byNames(a[0], b[0])) || a[1] - b[1]);
    rows = keyed.map((k) => k[2]);
  }
  return rows;
}
function cell(column, row) {
  const value = column[2](row), numeric = column[1] === "num" || column[1] === "load";
  const inside = column[1] === "node" && value ? nodeButton(value[0], value[1]) : column[1] === "code" ? node("code", {}, String(value)) : cellText(column, row);
  return node("td", { "data-label": column[0], ...(numeric ? { class: "num" } : {}) }, inside);
}
function fill() {
  const columns = COLUMNS[state.table], rows = currentRows(), shown = rows.slice(0, state.shown);
  const heads = columns.map((column, i) => node("th", { "aria-sort": i === state.column ? (state.down ? "descending" : "ascending") : "none", ...(column[1] === "num" || column[1] === "load" ? { class: "num" } : {}) },
    node("button", { class: "sort", onclick: () => { state.down = i === state.column && !state.down; state.column = i; state.shown = PAGE; fill(); } }, column[0])));
  grid.replaceChildren(node("table", { class: "stack", id: "table-" + state.table }, node("thead", {}, node("tr", {}, ...heads)),
    node("tbody", {}, ...shown.map((r) => node("tr", {}, ...columns.map((c) => cell(c, r)))))));
  const left = state.table === "switches" || !D.cable.left_out ? "" : "; " + count(D.cable.left_out, "cable") + " left out of this file (--json has all)";
  document.getElementById("rows-shown").textContent = (rows.length ? shown.length.toLocaleString("en") + " of " + rows.length.toLocaleString("en") + " rows" : "Nothing matches the filter") + left;
  document.getElementById("more-rows").hidden = shown.length === rows.length;
}
document.querySelectorAll("[data-table]").forEach((tab) => tab.addEventListener("click", () => {
  document.querySelectorAll("[data-table]").forEach((t) => t.setAttribute("aria-selected", String(t === tab)));
  Object.assign(state, { table: tab.dataset.table, column: -1, down: false, shown: PAGE });
  fill();
}));
document.getElementById("more-rows").addEventListener("click", () => { state.shown += 5 * PAGE; fill(); });
document.getElementById("table-filter").addEventListener("input", () => { state.shown = PAGE; fill(); });
fill();
