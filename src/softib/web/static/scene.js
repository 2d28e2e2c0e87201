// What of the fabric is drawn in a view: the finest level of detail that stays within the budgets, of what is in view; edges between two groups as one bundle.
// Level 0 are nodes, 1 racks (a leaf switch with its hosts), 2 the tiers of a block, 3 tiles of the map (softib.web.map_json).

// Where the processor draws; many times as many where a graphics card does.
export const NODES = 1800;
export const EDGES = 1000;
export const SIZE = { 0: 0.5, 1: 0.3, 2: 0.6 };
const MARGIN = 0.12;
const SHIFT = 2 ** 22;
const LEVEL = 2 ** 20;

export const levelOf = (key) => Math.floor(key / LEVEL);
export const groupOf = (key) => key % LEVEL;
const at = (doc, level, g) => (level ? [doc.level[level].x[g], doc.level[level].y[g]] : [doc.x[g], doc.y[g]]);
const many = (doc, level) => (level ? doc.level[level].x.length : doc.x.length);
const group = (doc, level, i) => (level ? doc.level[level].of[i] : i);

// A group of one node is that node.
function key(doc, level, i) {
  while (level && doc.level[level].count[doc.level[level].of[i]] === 1) level = 0;
  return level * LEVEL + group(doc, level, i);
}

export function wider(view, by = MARGIN) {
  const w = (view.right - view.left) * by, h = (view.high - view.low) * by;
  return { left: view.left - w, right: view.right + w, low: view.low - h, high: view.high + h };
}

function inView(doc, level, view) {
  const seen = new Uint8Array(many(doc, level));
  let count = 0;
  for (let g = 0; g < seen.length; g++) {
    const [x, y] = at(doc, level, g);
    if (x >= view.left && x <= view.right && y >= view.low && y <= view.high) { seen[g] = 1; count++; }
  }
  return { seen, count };
}

// {view, level, edgeLevel, nodes: Map(key → {own}), edges: [a, b, cables' pairs] columns, bundleOf: Int32Array of each edge of doc, -1 where it is not drawn}
export function sceneOf(doc, view, marked, hops, plenty = 1) {
  const bounds = wider(view);
  let level = 0, found = inView(doc, 0, bounds);
  while (found.count > NODES * plenty && level < doc.level.length - 1) found = inView(doc, ++level, bounds);
  let bundles, edgeLevel;
  for (const [inside, outside] of detail(level, doc.level.length - 1)) {
    edgeLevel = inside;
    bundles = bundled(doc, level, inside, outside, found.seen, marked, hops);
    if (bundles.a.length <= EDGES * plenty) break;
  }
  const nodes = new Map();
  for (let i = 0; i < doc.x.length; i++) {
    if (marked.has(i)) nodes.set(i, true);
    else if (found.seen[group(doc, level, i)]) nodes.set(key(doc, level, i), true);
  }
  for (const end of [...bundles.a, ...bundles.b]) if (!nodes.has(end)) nodes.set(end, false);
  return { bounds, level, edgeLevel, nodes, ...bundles };
}

// Levels of the ends in view and of those beyond, the finest first: what is out of view becomes coarser first.
function detail(level, last) {
  const found = [];
  for (let outside = level; outside <= Math.max(level, Math.min(2, last)); outside++) found.push([level, outside]);
  for (let inside = level + 1; inside <= last; inside++) found.push([inside, Math.max(inside, Math.min(2, last))]);
  return found;
}

function bundled(doc, level, edgeLevel, outside, seen, marked, hops) {
  const a = [], b = [], count = [], rows = new Map();
  const n = doc.edge.length / 2, bundleOf = new Int32Array(n).fill(-1);
  const end = (i, lower) => {
    if (marked.has(i)) return i;
    return key(doc, seen[group(doc, level, i)] ? lower : Math.max(lower, outside), i);
  };
  for (let e = 0; e < n; e++) {
    const p = doc.edge[2 * e], q = doc.edge[2 * e + 1];
    if (!seen[group(doc, level, p)] && !seen[group(doc, level, q)] && !hops.has(e)) continue;
    // A host's cable is drawn as long as the host is.
    const lower = doc.leaf[p] !== p || doc.leaf[q] !== q ? level : edgeLevel;
    let s = end(p, lower), t = end(q, lower);
    if (s === t) continue;
    if (s > t) [s, t] = [t, s];
    const pair = s * SHIFT + t;
    let row = rows.get(pair);
    if (row === undefined) { row = a.length; rows.set(pair, row); a.push(s); b.push(t); count.push(0); }
    count[row]++;
    bundleOf[e] = row;
  }
  return { a, b, count, bundleOf };
}

// Where a key stands, how large it is (in steps of the map, hosts stand 1 apart), what it is called, and which nodes it is of.
export function place(doc, k) {
  const level = levelOf(k), g = groupOf(k), [x, y] = at(doc, level, g);
  if (!level) return { x, y, size: SIZE[doc.kind[g]] + (doc.tier[g] > 1 ? 0.15 : 0), label: doc.name[g] };
  const of = doc.level[level];
  return { x, y, size: level === 1 ? 0.6 + Math.sqrt(of.count[g]) * 0.22 : 0.6 + Math.sqrt(of.count[g]) * 0.16, label: of.name[g] };
}

export function members(doc, k) {
  const level = levelOf(k), g = groupOf(k);
  if (!level) return [g];
  const found = [];
  doc.level[level].of.forEach((one, i) => { if (one === g) found.push(i); });
  return found;
}
