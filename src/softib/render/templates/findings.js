// Findings: filters by text and severity; links from locations to the drawing, and from codes to their meaning.
const findingsTable = document.getElementById("findings-table");
function filterFindings() {
  const terms = document.getElementById("findings-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const off = Array.from(document.querySelectorAll(".chip[aria-pressed=false]"), (c) => c.dataset.severity);
  let shown = 0;
  findingsTable.querySelectorAll("tbody tr").forEach((row) => {
    const text = row.textContent.toLowerCase(), keep = terms.every((w) => text.includes(w)) && !off.includes(row.dataset.s);
    row.hidden = !keep;
    shown += keep;
  });
  findingsTable.closest(".card").querySelector(".empty").hidden = shown > 0;
}
function openTarget() {
  const about = /^#about-/.test(location.hash) && document.getElementById(location.hash.slice(1));
  if (about) { about.closest("details").open = true; about.scrollIntoView({ block: "center" }); }
  const place = location.hash.match(/^#node-([0-9a-f]{16})(?:-(\d+))?$/);
  if (place) { choose(D.guid.indexOf(place[1]), +(place[2] || 0)); }
}
if (findingsTable) {
  document.getElementById("findings-filter").addEventListener("input", filterFindings);
  document.querySelectorAll(".chip").forEach((chip) => chip.addEventListener("click", () => {
    chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") === "false"));
    filterFindings();
  }));
  findingsTable.querySelectorAll("[data-node]").forEach((b) => {
    if (b.dataset.node === "-1" || !chosen) { b.disabled = true; return; }
    b.addEventListener("click", () => choose(+b.dataset.node, +b.dataset.port));
  });
}
window.addEventListener("hashchange", openTarget);
openTarget();
