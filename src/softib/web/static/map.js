// The map: nodes and edges in WebGL. Colours change edge by edge, in pieces of a frame, so that moving the map never waits for them.
import { MARK, NODE, severity, step, steps, theme } from "./colours.js";

const PIECE = 1500;
const THIN = 0.03;
// Radius of switches, adapters and routers, in steps of the map (hosts stand 1 apart).
const SIZE = { 0: 0.5, 1: 0.3, 2: 0.6 };

export class FabricMap {
  constructor(element, onNode) {
    this.element = element;
    this.onNode = onNode;
    this.marked = new Set();
    this.hops = new Set();
    this.by = "load";
  }

  draw(doc) {
    const camera = this.renderer ? this.renderer.getCamera().getState() : null;
    if (this.renderer) this.renderer.kill();
    this.doc = doc;
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < doc.x.length; i++) {
      left = Math.min(left, doc.x[i]); right = Math.max(right, doc.x[i]);
      low = Math.min(low, doc.y[i]); high = Math.max(high, doc.y[i]);
    }
    this.extent = Math.max(right - left, high - low, 1);
    this.stepOf = new Uint8Array(doc.edge.length / 2);
    this.nodeWorst = new Uint8Array(doc.name.length);
    const graph = new graphology.Graph({ type: "undirected", multi: true, allowSelfLoops: true });
    for (let i = 0; i < doc.name.length; i++) {
      graph.addNode(i, { x: doc.x[i], y: doc.y[i], size: this.size(i), color: this.nodeColour(i), label: doc.name[i] });
    }
    const nothing = steps(this.by)[0];
    for (let e = 0; e < this.stepOf.length; e++) {
      graph.addEdgeWithKey(e, doc.edge[2 * e], doc.edge[2 * e + 1], { size: THIN, color: nothing });
    }
    this.graph = graph;
    this.renderer = new Sigma(graph, this.element, {
      hideEdgesOnMove: true, hideLabelsOnMove: true, labelRenderedSizeThreshold: 7, labelDensity: 0.6, labelColor: { color: this.ink() },
      minCameraRatio: Math.min(1, 5 / this.extent), maxCameraRatio: 3, zIndex: false, allowInvalidContainer: true, defaultDrawNodeHover: hover,
      // Nodes grow as one comes near, as buildings of a map do.
      zoomToSizeRatioFunction: (ratio) => ratio, itemSizesReference: "positions", minEdgeThickness: 0.7,
    });
    this.renderer.on("clickNode", ({ node }) => this.onNode(Number(node)));
    if (camera) this.renderer.getCamera().setState(camera);
  }

  size(i) { return SIZE[this.doc.kind[i]] + (this.doc.tier[i] > 1 ? 0.15 : 0); }
  ink() { return theme() === "dark" ? "#dbe7f7" : "#16202e"; }
  nodeColour(i) {
    if (this.marked.has(i)) return MARK[theme()];
    return this.nodeWorst[i] ? severity(this.nodeWorst[i]) : NODE[theme()][this.doc.kind[i]];
  }
  edgeColour(e) { return this.hops.has(e) ? MARK[theme()] : steps(this.by)[this.stepOf[e]]; }

  // values: uint8 of each edge, worst finding of each node. Only what changed is drawn again.
  colour(by, values, worst, all = false) {
    all = all || by !== this.by;
    this.by = by;
    const edges = [], nodes = [];
    for (let e = 0; e < this.stepOf.length; e++) {
      const now = step(by, values[e]);
      if (all || now !== this.stepOf[e]) { this.stepOf[e] = now; edges.push(e); }
    }
    for (let i = 0; i < this.nodeWorst.length; i++) {
      if (all || worst[i] !== this.nodeWorst[i]) { this.nodeWorst[i] = worst[i]; nodes.push(i); }
    }
    this.repaint(edges, nodes);
  }

  repaint(edges, nodes) {
    cancelAnimationFrame(this.frame);
    this.left = { edges: [...new Set([...(this.left?.edges ?? []), ...edges])], nodes: [...new Set([...(this.left?.nodes ?? []), ...nodes])] };
    const piece = () => {
      const e = this.left.edges.splice(0, PIECE), n = this.left.nodes.splice(0, PIECE);
      for (const i of e) this.graph.mergeEdgeAttributes(i, { color: this.edgeColour(i), size: this.hops.has(i) ? 0.12 : this.stepOf[i] ? 0.09 : THIN });
      for (const i of n) this.graph.mergeNodeAttributes(i, { color: this.nodeColour(i), size: this.size(i) + (this.marked.has(i) ? 0.15 : 0) });
      if (this.left.edges.length || this.left.nodes.length) this.frame = requestAnimationFrame(piece);
    };
    this.frame = requestAnimationFrame(piece);
  }

  mark(nodes, pairs = []) {
    const before = [...this.marked], hops = [...this.hops];
    this.marked = new Set(nodes);
    const wanted = new Set(pairs.map(([a, b]) => `${Math.min(a, b)} ${Math.max(a, b)}`));
    this.hops = new Set();
    if (wanted.size) {
      for (let e = 0; e < this.stepOf.length; e++) {
        const a = this.doc.edge[2 * e], b = this.doc.edge[2 * e + 1];
        if (wanted.has(`${Math.min(a, b)} ${Math.max(a, b)}`)) this.hops.add(e);
      }
    }
    this.repaint([...hops, ...this.hops], [...before, ...this.marked]);
  }

  recolour() {
    this.renderer.setSetting("labelColor", { color: this.ink() });
    this.repaint([...this.stepOf.keys()], [...this.nodeWorst.keys()]);
  }

  // Show these nodes: the middle of them, and near enough to tell them apart.
  show(nodes) {
    const at = nodes.map((i) => this.renderer.getNodeDisplayData(String(i))).filter(Boolean);
    if (!at.length) return;
    const xs = at.map((p) => p.x), ys = at.map((p) => p.y);
    const span = Math.max(Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys));
    const middle = (v) => (Math.max(...v) + Math.min(...v)) / 2;
    this.renderer.getCamera().animate({ x: middle(xs), y: middle(ys), ratio: Math.min(1, Math.max(14 / this.extent, span * 1.6)) }, { duration: 300 });
  }

  key(name) {
    const camera = this.renderer.getCamera(), { x, y, ratio } = camera.getState(), by = ratio * 0.15;
    const moves = { ArrowLeft: { x: x - by }, ArrowRight: { x: x + by }, ArrowUp: { y: y + by }, ArrowDown: { y: y - by } };
    if (moves[name]) camera.setState(moves[name]);
    else if (name === "+" || name === "=") camera.animatedZoom({ duration: 120 });
    else if (name === "-") camera.animatedUnzoom({ duration: 120 });
    else if (name === "0") camera.animatedReset({ duration: 120 });
    else return false;
    return true;
  }
}

// The name of the node under the pointer, on the page's own colours.
function hover(context, data, settings) {
  if (!data.label) return;
  const dark = theme() === "dark", width = context.measureText(data.label).width + 14;
  context.font = `${settings.labelSize}px ${settings.labelFont}`;
  context.fillStyle = dark ? "#17202c" : "#ffffff";
  context.strokeStyle = dark ? "#6ea8ff" : "#1f5fbf";
  context.beginPath();
  context.roundRect(data.x + data.size + 2, data.y - 12, width, 24, 5);
  context.fill();
  context.stroke();
  context.fillStyle = dark ? "#e7edf5" : "#16202e";
  context.fillText(data.label, data.x + data.size + 9, data.y + 5);
}
