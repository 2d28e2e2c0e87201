// The map: what scene.js chose, in WebGL. It is chosen again when the camera rests.
import { DOWN, MARK, NODE, edgeColour, jobColour, severity, step, theme, worse } from "./colours.js";
import { Moving } from "./moving.js";
import { SIZE, groupOf, levelOf, members, place, sceneOf } from "./scene.js";

const THIN = 0.03;
const BUSY = 0.09;

export class FabricMap {
  // onNode(row, near) and onGroup(name, rows) are called with what is clicked; near is false where the node stands for its rack.
  constructor(element, onNode, onGroup) {
    Object.assign(this, { element, onNode, onGroup, marked: new Set(), hops: new Set(), by: "load" });
  }

  draw(doc) {
    const camera = this.renderer ? this.renderer.getCamera().getState() : null;
    if (this.renderer) { this.moving.end(); this.renderer.kill(); }
    this.doc = doc;
    this.bounds(doc);
    this.value = new Uint8Array(doc.edge.length / 2);
    this.down = new Uint8Array(this.value.length);
    this.worst = new Uint8Array(doc.name.length);
    this.marked = new Set();
    this.hops = new Set();
    this.renderer = new Sigma(new graphology.Graph(), this.element, {
      hideEdgesOnMove: false, hideLabelsOnMove: false, labelRenderedSizeThreshold: 7, labelDensity: 0.6, labelColor: { color: this.ink() },
      minCameraRatio: Math.min(1, 5 / this.extent), maxCameraRatio: 3, zIndex: false, allowInvalidContainer: true, defaultDrawNodeHover: hover, defaultDrawNodeLabel: (...given) => this.label(...given),
      // Nodes grow as one comes near, as buildings of a map do.
      zoomToSizeRatioFunction: (ratio) => ratio, itemSizesReference: "positions", minEdgeThickness: 0.7,
    });
    this.renderer.setCustomBBox({ x: [this.left, this.right], y: [this.low, this.high] });
    this.renderer.on("beforeRender", () => { this.written = []; });
    this.renderer.on("clickNode", ({ node }) => this.clicked(Number(node)));
    if (camera) this.renderer.getCamera().setState(camera);
    this.moving = new Moving(this.renderer, () => this.choose(), () => this.repaint());
    this.plenty = hasGraphicsCard(this.renderer) ? 5 : 1;
    this.renderer.refresh();
    this.moving.rest();
  }

  bounds(doc) {
    [this.left, this.right, this.low, this.high] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < doc.x.length; i++) {
      this.left = Math.min(this.left, doc.x[i]); this.right = Math.max(this.right, doc.x[i]);
      this.low = Math.min(this.low, doc.y[i]); this.high = Math.max(this.high, doc.y[i]);
    }
    if (!doc.x.length) [this.left, this.right, this.low, this.high] = [0, 1, 0, 1];
    // Circles and names stand out over the centres, by a step at most: most of the picture where the map has few steps.
    this.left -= 1; this.right += 1; this.low -= 1; this.high += 1;
    this.extent = Math.max(this.right - this.left, this.high - this.low, 1);
  }

  // The part of the map that the camera sees, in its steps.
  view() {
    const { width, height } = this.renderer.getDimensions();
    const a = this.renderer.viewportToGraph({ x: 0, y: height }), b = this.renderer.viewportToGraph({ x: width, y: 0 });
    return { left: Math.min(a.x, b.x), right: Math.max(a.x, b.x), low: Math.min(a.y, b.y), high: Math.max(a.y, b.y) };
  }

  choose() {
    const scene = this.scene = sceneOf(this.doc, this.view(), this.marked, this.hops, this.plenty);
    this.gather();
    const graph = new graphology.Graph({ type: "undirected", multi: true, allowSelfLoops: true });
    for (const [key, seen] of scene.nodes) {
      const { x, y, size, label } = place(this.doc, key);
      graph.addNode(key, seen ? { x, y, size: size + (this.marked.has(key) ? 0.15 : 0), color: this.nodeColour(key), label }
        : { x, y, size: 0.01, color: this.edgeColour(0), label: null });
    }
    for (let e = 0; e < scene.a.length; e++) graph.addEdgeWithKey(e, scene.a[e], scene.b[e], { size: this.thickness(e), color: this.edgeColour(e) });
    this.graph = graph;
    this.renderer.setGraph(graph);
  }

  // Of each bundle and group the worst of its parts.
  gather() {
    const { scene, doc } = this, n = scene.a.length;
    scene.value = new Uint8Array(n);
    scene.down = new Uint8Array(n);
    scene.hop = new Uint8Array(n);
    for (let e = 0; e < this.value.length; e++) {
      const row = scene.bundleOf[e];
      if (row < 0) continue;
      scene.value[row] = worse(this.by, scene.value[row], this.value[e]);
      if (this.down[e]) scene.down[row] = 1;
      if (this.hops.has(e)) scene.hop[row] = 1;
    }
    scene.worst = scene.level ? new Uint8Array(doc.level[scene.level].x.length) : this.worst;
    if (scene.level) doc.level[scene.level].of.forEach((g, i) => { scene.worst[g] = worse(this.by, scene.worst[g], this.worst[i]); });
  }

  thickness(e) {
    const { scene } = this;
    const wide = 1 + Math.log2(scene.count[e]) * 0.8;
    return scene.hop[e] || scene.down[e] ? Math.max(0.12, BUSY * wide) : (step(this.by, scene.value[e]) ? BUSY : THIN) * wide;
  }

  // A name beside its node, where no other stands yet.
  label(context, data, settings) {
    if (!data.label) return;
    const text = data.label.split(/[,…]/)[0].trim();
    context.font = `${settings.labelSize}px ${settings.labelFont}`;
    const x = data.x + data.size + 3, y = data.y + settings.labelSize / 3, right = x + context.measureText(text).width + 4;
    const key = Number(data.key);
    // Hosts stand one step apart; a name that does not fit in between is seen when the pointer is there.
    if (!levelOf(key) && this.doc.kind[key] !== 0 && !this.marked.has(key) && right - data.x + data.size > data.size / SIZE[this.doc.kind[key]]) return;
    const crosses = (r) => x < r.right && right > r.x && Math.abs(y - r.y) < settings.labelSize;
    if (this.written.length > 400 || this.written.some(crosses)) return;
    this.written.push({ x, y, right });
    context.fillStyle = this.ink();
    context.fillText(text, x, y);
  }

  ink() { return theme() === "dark" ? "#dbe7f7" : "#16202e"; }
  nodeColour(key) {
    if (this.marked.has(key)) return MARK[theme()];
    const worst = levelOf(key) ? this.scene.worst[groupOf(key)] : this.worst[key];
    if (this.by === "jobs") return worst ? jobColour(worst) : NODE[theme()][levelOf(key) ? 0 : this.doc.kind[key]];
    return worst ? severity(worst) : NODE[theme()][levelOf(key) ? 0 : this.doc.kind[key]];
  }
  edgeColour(e) {
    if (this.scene.hop[e]) return MARK[theme()];
    return this.scene.down[e] ? DOWN[theme()] : edgeColour(this.by, this.scene.value[e] ?? 0);
  }

  // values: uint8 of each edge; worst: of each node its worst finding; down: 1 for edges none of whose cables is up.
  colour(by, values, worst, down) {
    Object.assign(this, { by, value: values, worst, down });
    this.repaint();
  }

  repaint() {
    if (!this.scene || this.moving.hold) return;
    this.gather();
    this.graph.forEachEdge((key, old) => {
      const color = this.edgeColour(Number(key)), size = this.thickness(Number(key));
      if (old.color !== color || old.size !== size) this.graph.mergeEdgeAttributes(key, { color, size });
    });
    this.graph.forEachNode((key, old) => {
      if (!this.scene.nodes.get(Number(key))) return;
      const color = this.nodeColour(Number(key));
      if (old.color !== color) this.graph.setNodeAttribute(key, "color", color);
    });
  }

  // What is marked is drawn by itself, however far away the reader stands.
  mark(nodes, pairs = []) {
    this.marked = new Set(nodes);
    const wanted = new Set(pairs.map(([a, b]) => `${Math.min(a, b)} ${Math.max(a, b)}`));
    this.hops = new Set();
    if (wanted.size) {
      for (let e = 0; e < this.value.length; e++) {
        const a = this.doc.edge[2 * e], b = this.doc.edge[2 * e + 1];
        if (wanted.has(`${Math.min(a, b)} ${Math.max(a, b)}`)) this.hops.add(e);
      }
    }
    this.moving.rest();
  }

  recolour() {
    this.renderer.setSetting("labelColor", { color: this.ink() });
    this.repaint();
  }

  clicked(key) {
    if (!this.scene.nodes.get(key)) return;
    if (!levelOf(key)) return this.onNode(key, true);
    const rows = members(this.doc, key);
    if (levelOf(key) === 1) this.onNode(rows.find((i) => this.doc.leaf[i] === i), false);
    else this.onGroup(place(this.doc, key).label, rows);
    this.show(rows);
  }

  // Show these nodes: the middle of them, and near enough to tell them apart.
  show(nodes) {
    if (!nodes.length) return;
    const xs = nodes.map((i) => this.doc.x[i]), ys = nodes.map((i) => this.doc.y[i]);
    const most = (v) => v.reduce((a, b) => Math.max(a, b)), least = (v) => v.reduce((a, b) => Math.min(a, b));
    const span = Math.max(most(xs) - least(xs), most(ys) - least(ys));
    const { x, y } = this.renderer.viewportToFramedGraph(this.renderer.graphToViewport({ x: (most(xs) + least(xs)) / 2, y: (most(ys) + least(ys)) / 2 }));
    this.renderer.getCamera().animate({ x, y, ratio: Math.min(1, Math.max(14, span * 1.4) / this.extent) }, { duration: 300 });
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

// Without one WebGL is drawn by the processor.
function hasGraphicsCard(renderer) {
  const gl = renderer.webGLContexts?.nodes, names = gl?.getExtension("WEBGL_debug_renderer_info");
  return Boolean(names) && !/swiftshader|llvmpipe|software/i.test(gl.getParameter(names.UNMASKED_RENDERER_WEBGL));
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
