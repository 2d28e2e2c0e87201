"use strict";
// Colour the drawing by load, speed or findings.
document.querySelectorAll("[data-view]").forEach(function (button) {
  button.addEventListener("click", function () {
    var card = button.closest(".card");
    card.querySelectorAll("[data-view]").forEach(function (b) { b.classList.toggle("on", b === button); });
    var svg = card.querySelector("svg.fabric");
    svg.setAttribute("class", "fabric " + button.dataset.view);
    card.querySelectorAll(".legend").forEach(function (l) { l.hidden = !l.classList.contains(button.dataset.view); });
  });
});
// Filter the rows of a table by text, and findings by severity.
function refresh(table) {
  var input = document.querySelector('[data-filter="' + table.id + '"]');
  var words = (input ? input.value : "").toLowerCase().split(/\s+/).filter(Boolean);
  var off = Array.prototype.map.call(document.querySelectorAll(".chip:not(.on)"), function (c) { return c.dataset.severity; });
  var shown = 0;
  table.querySelectorAll("tbody tr").forEach(function (row) {
    var text = row.textContent.toLowerCase();
    var keep = words.every(function (w) { return text.indexOf(w) >= 0; }) && off.indexOf(row.dataset.s) < 0;
    row.hidden = !keep;
    shown += keep;
  });
  var empty = table.closest(".card").querySelector(".empty");
  if (empty) { empty.hidden = shown > 0; }
}
document.querySelectorAll("[data-filter]").forEach(function (input) {
  input.addEventListener("input", function () { refresh(document.getElementById(input.dataset.filter)); });
});
document.querySelectorAll(".chip").forEach(function (chip) {
  chip.addEventListener("click", function () {
    chip.classList.toggle("on");
    refresh(document.getElementById("findings-table"));
  });
});
