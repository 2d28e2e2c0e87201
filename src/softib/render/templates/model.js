// The fabric as columns: its nodes and cables, and the findings about each.
const D = JSON.parse(document.getElementById("data").textContent);
const KINDS = ["switch", "host", "SHARP node", "router"];
const SEVERITIES = ["info", "warning", "error"];
const cablesOf = D.name.map(() => []);
for (let c = 0; c < D.cable.a.length; c++) {
  cablesOf[D.cable.a[c]].push(c);
  if (D.cable.b[c] !== D.cable.a[c]) { cablesOf[D.cable.b[c]].push(c); }
}
const findingsOf = D.name.map(() => []);
D.finding_ports.forEach((places, f) => {
  new Set(places.map((p) => p[0])).forEach((node) => { if (node >= 0) { findingsOf[node].push(f); } });
});
const byNames = new Intl.Collator("en", { numeric: true }).compare;

function node(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const key in attributes) {
    if (key === "onclick") { made.addEventListener("click", attributes[key]); } else { made.setAttribute(key, attributes[key]); }
  }
  children.forEach((child) => made.append(child));
  return made;
}
function count(n, what) { return n.toLocaleString("en") + " " + what + (n === 1 ? "" : "s"); }
// The end of cable c that is not node n: [node, port there, port at n, load towards it, load from it]. For a cable from a node to itself, either end.
function farEnd(c, n) {
  const k = D.cable;
  return k.a[c] === n ? [k.b[c], k.bp[c], k.ap[c], k.out[c], k.back[c]] : [k.a[c], k.ap[c], k.bp[c], k.back[c], k.out[c]];
}
function load(hundredths) { return hundredths < 0 ? "–" : (hundredths / 100).toFixed(2); }
// The switches with which the drawing represents a node: those that it is cabled to, or the switch itself.
function switchesOf(n) { return D.kind[n] === 0 ? [n] : cablesOf[n].map((c) => farEnd(c, n)[0]).filter((p) => D.kind[p] === 0); }
function nodeButton(n, port) {
  return node("button", { class: "place", onclick: () => choose(n, port || 0) }, D.name[n] + (port ? "[" + port + "]" : ""));
}
