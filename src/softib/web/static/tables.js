// Tables in place of the map: ports by errors, modules and cables, events. Sorted and filtered by the server.
import { $, ask, element, moment } from "./ask.js";

const STEP = 200, MOST = 1000, AGAIN_MS = 5000;
const port = (r) => `${r.node}[${r.port}]`;
const many = (v) => v === null ? null : v.toLocaleString();
const ratio = (v) => v === null ? null : v === 0 ? "0" : v.toExponential(1);
const span = (s) => s === null ? null : s < 120 ? `${s} s` : `${Math.round(s / 60)} min`;
const counted = (o) => Object.entries(o).map(([name, n]) => `${name.replace(/_(counter|ctr)$/, "")} ${n.toLocaleString()}`).join(", ") || null;
// [heading, column that sorts ("-": the largest first; null: none), text of a row]
const VIEWS = {
  errors: { path: "port-errors", none: "Nothing is known of counters: the source has none.", columns: [
    ["port", "node", port], ["to", "peer", (r) => r.peer], ["errors an hour", "-per_hour", (r) => many(r.per_hour === null ? null : Math.round(r.per_hour * 10) / 10)],
    ["rose", "-rose", (r) => r.rose ? counted(r.rises) : many(r.rose)], ["in", "-observed_s", (r) => span(r.observed_s)], ["errors in all", "-errors", (r) => many(r.errors)], ["counters", null, (r) => counted(r.counters)],
    ["symbol BER", "-symbol_ber", (r) => ratio(r.symbol_ber)], ["BER before FEC", "-raw_ber", (r) => ratio(r.raw_ber)], ["BER after FEC", "-effective_ber", (r) => ratio(r.effective_ber)]] },
  modules: { path: "modules", none: "Nothing is known of modules and cables: neither the devices nor the file have them.", columns: [
    ["port", "node", port], ["to", "peer", (r) => r.peer], ["vendor", "vendor", (r) => r.vendor], ["part", "part", (r) => r.part], ["serial", "serial", (r) => r.serial],
    ["kind", "kind", (r) => r.kind], ["length (m)", "-length_m", (r) => r.length_m], ["°C", "-temperature_c", (r) => r.temperature_c], ["RX dBm", "rx_power_dbm", (r) => r.rx_power_dbm],
    ["TX dBm", "tx_power_dbm", (r) => r.tx_power_dbm], ["bias mA", "-tx_bias_ma", (r) => r.tx_bias_ma], ["V", "voltage_v", (r) => r.voltage_v]] },
  events: { path: "events", none: "Nothing has happened since the server began.", columns: [
    ["time", "-time", (r) => moment(r.time)], ["kind", "kind", (r) => r.kind], ["severity", "severity", (r) => r.severity], ["what", "text", (r) => r.text]] },
};

export class Tables {
  // then(path): the path for the time that is shown; chosen(guid) is called with the node that is clicked.
  constructor(then, chosen) {
    Object.assign(this, { then, chosen, view: "map", sort: "", limit: STEP, read_ms: 0, asked: 0 });
    for (const button of $("views").querySelectorAll("button")) button.addEventListener("click", () => this.show(button.dataset.view));
    $("filter").addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.begin(), 200);
    });
    $("kind").addEventListener("change", () => this.begin());
    $("rows").addEventListener("click", (event) => {
      const head = event.target.closest("[data-sort]"), place = event.target.closest("[data-guid]");
      if (head) this.order(head.dataset.sort);
      if (place) this.chosen(place.dataset.guid);
    });
    $("more").addEventListener("click", () => { this.limit += STEP; this.read(); });
  }

  show(view) {
    this.view = view;
    for (const button of $("views").querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset.view === view));
    $("table").hidden = view === "map";
    $("kind").hidden = view !== "events";
    [this.sort, $("filter").value, $("kind").value] = ["", "", ""];
    $("rows").replaceChildren();
    if (view !== "map") this.begin();
  }

  begin() {
    this.limit = STEP;
    $("table").scrollTop = 0;
    this.read();
  }

  // A click on a heading sorts, a second one turns the order.
  order(column) {
    const turned = column.startsWith("-") ? column.slice(1) : `-${column}`;
    this.sort = this.sort === column ? turned : column;
    this.begin();
  }

  async refresh() {
    if (this.view !== "map" && performance.now() - this.read_ms > AGAIN_MS) await this.read();
  }

  async read() {
    const { path, none, columns } = VIEWS[this.view], asked = ++this.asked;
    this.read_ms = performance.now();
    const given = new URLSearchParams({ limit: Math.min(this.limit, MOST) });
    if (this.sort) given.set("sort", this.sort);
    if ($("filter").value.trim()) given.set("q", $("filter").value.trim());
    if (this.view === "events" && $("kind").value) given.set("kind", $("kind").value);
    let rows = [], total = 0, wrong = "";
    try {
      ({ rows, total } = await ask(this.view === "events" ? `${path}?${given}` : this.then(`${path}?${given}`)));
    } catch (error) {
      wrong = error.message;
    }
    if (asked !== this.asked) return;
    // A column in which nothing is known is left out.
    const shown = columns.filter(([, , text]) => rows.some((r) => (text(r) ?? "") !== ""));
    $("rows").replaceChildren(this.heading(shown), this.body(shown, rows));
    const filtered = $("filter").value.trim() || $("kind").value;
    $("sum").textContent = wrong || (total ? `${rows.length.toLocaleString()} of ${total.toLocaleString()}` : filtered ? "Nothing matches." : none);
    $("more").hidden = rows.length >= total || this.limit >= MOST;
  }

  heading(columns) {
    const head = element("thead"), line = element("tr");
    for (const [name, column] of columns) {
      const cell = element("th"), by = this.sort.replace("-", "");
      if (column) {
        const active = by === column.replace("-", "");
        cell.setAttribute("aria-sort", active ? (this.sort.startsWith("-") ? "descending" : "ascending") : "none");
        cell.append(element("button", `${name}${active ? (this.sort.startsWith("-") ? " ▾" : " ▴") : ""}`, { type: "button", "data-sort": column }));
      } else cell.textContent = name;
      line.append(cell);
    }
    head.append(line);
    return head;
  }

  body(columns, rows) {
    const body = element("tbody");
    for (const r of rows) {
      const line = element("tr", "", r.severity ? { class: r.severity } : {});
      columns.forEach(([name, , text]) => {
        const cell = element("td"), words = String(text(r) ?? "");
        if (r.guid && (name === "port" || name === "what")) cell.append(element("button", words, { type: "button", class: "place", "data-guid": r.guid.slice(2) }));
        else cell.textContent = words;
        line.append(cell);
      });
      body.append(line);
    }
    return body;
  }
}
