// Moving the map: where drawing takes long (WebGL without a graphics card), the picture that is there is moved and scaled while the camera moves, and drawn again when it
// rests; where drawing is quick, every frame is drawn.

const QUICK_MS = 20;
const REST_MS = 140;
const FAR = 0.6;

export class Moving {
  // settled(): called when the camera rests, to say what is to be drawn; shown() when it is.
  constructor(renderer, settled, shown) {
    Object.assign(this, { renderer, settled, shown, cost: 2 * QUICK_MS, drawn: null, hold: false, draws: 0 });
    this.draw = renderer.render.bind(renderer);
    this.layers = Object.values(renderer.getCanvases()).filter((c) => !c.classList.contains("sigma-mouse"));
    for (const c of this.layers) c.style.transformOrigin = "0 0";
    renderer.render = () => this.render();
    // Where things are is asked for the camera as it stands, not as it stood when the picture was drawn.
    for (const name of ["viewportToFramedGraph", "framedGraphToViewport"]) {
      const asked = renderer[name].bind(renderer);
      renderer[name] = (at, other = {}) => asked(at, { cameraState: renderer.getCamera().getState(), ...other });
    }
    renderer.on("resize", () => this.later());
  }

  get moved() {
    const now = this.renderer.getCamera().getState(), then = this.drawn;
    return then !== null && ["x", "y", "ratio", "angle"].some((k) => now[k] !== then[k]);
  }

  render() {
    if (this.renderer.renderFrame) cancelAnimationFrame(this.renderer.renderFrame);
    this.renderer.renderFrame = null;
    if (this.hold) return this.renderer;
    if (!this.moved) return this.now();
    this.later();
    if (this.cost < QUICK_MS || this.shift() > FAR) return this.now();
    return this.renderer;
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.rest(), REST_MS);
  }

  now() {
    const began = performance.now();
    this.draw();
    this.draws++;
    this.drawn = { ...this.renderer.getCamera().getState() };
    for (const c of this.layers) c.style.transform = "";
    requestAnimationFrame(() => requestAnimationFrame(() => { this.cost = 0.7 * this.cost + 0.3 * (performance.now() - began); }));
    return this.renderer;
  }

  // Puts the picture where the camera would have it; how far it is away, as a share of the page.
  shift() {
    const { renderer, drawn } = this, { width, height } = renderer.getDimensions();
    const at = (x, y) => renderer.framedGraphToViewport(renderer.viewportToFramedGraph({ x, y }, { cameraState: drawn }));
    const a = at(0, 0), b = at(width, height), scale = (b.x - a.x) / width;
    for (const c of this.layers) c.style.transform = `translate(${a.x}px, ${a.y}px) scale(${scale})`;
    return Math.max(Math.abs(a.x + b.x - width) / 2 / width, Math.abs(a.y + b.y - height) / 2 / height, Math.abs(Math.log2(scale)) / 3);
  }

  // The camera rests: what is to be seen is made in one frame and drawn in the next.
  rest() {
    this.hold = true;
    const { x, y, ratio } = this.renderer.getCamera().getState();
    this.settled();
    requestAnimationFrame(() => {
      if (this.ended) return;
      this.hold = false;
      this.now();
      this.shown();
      const at = this.renderer.getCamera().getState();
      if (at.x !== x || at.y !== y || at.ratio !== ratio) this.later();  // it moved meanwhile
    });
  }

  end() {
    clearTimeout(this.timer);
    this.hold = this.ended = true;
  }
}
