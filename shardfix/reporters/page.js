"use strict";
const form = document.querySelector(".filters");
const boxes = [...form.querySelectorAll("input")];
const findings = [...document.querySelectorAll("li.finding")];

function apply() {
  const chosen = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
  const isChosen = (kind) => kind.split("/").every((part) => chosen.has(part));
  for (const part of document.querySelectorAll("[data-kinds]")) {
    part.hidden = !part.dataset.kinds.split(" ").some(isChosen);
  }
  const shown = findings.filter((finding) => !finding.hidden).length;
  form.querySelector("output").value = shown + " of " + findings.length + " findings shown";
}

form.addEventListener("change", apply);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("click", (event) => {
  if (event.target.type !== "button") return;
  const all = event.target.value === "all";
  for (const box of boxes) if (all || box.name === "codemod") box.checked = all;
  apply();
});

function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  const folded = target && target.closest("details");
  if (folded) folded.open = true;
}
addEventListener("hashchange", openTarget);

form.hidden = false;
apply();
openTarget();
