// Shortcuts for the page of a question, which works without this script as well.
"use strict";
document.documentElement.classList.add("scripted");
const form = document.getElementById("answer");
const slider = document.getElementById("slider");
const value = document.getElementById("value");
let sent = false;

if (slider) {
  slider.addEventListener("input", () => { value.value = slider.value; });
  value.addEventListener("input", () => { slider.value = value.value; });
  value.focus();
}

// A second press while the answer is on its way is not a second answer.
document.addEventListener("submit", (event) => {
  if (sent) event.preventDefault();
  sent = true;
});
window.addEventListener("pageshow", () => { sent = false; });

function choose(number) {
  const choice = form.querySelectorAll(".choice")[number];
  if (!choice) return;
  const box = choice.querySelector("input");
  if (box) box.checked = !box.checked;
  else choice.click();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, input:not([type=checkbox])")) return;
  const key = event.key.toLowerCase();
  const skip = document.getElementById("skip");
  if (/^[1-9]$/.test(key)) choose(Number(key) - 1);
  else if (form.dataset.kind === "comparison" && key === "arrowleft") choose(0);
  else if (form.dataset.kind === "comparison" && key === "arrowright") choose(1);
  else if (key === "u") document.querySelector("#undo button").click();
  else if (key === "s") { skip.open = !skip.open; if (skip.open) skip.querySelector("select").focus(); }
  else if (key === "i") { const box = document.getElementById("instructions"); if (box) box.open = !box.open; }
  else if (key === "enter" && form.dataset.kind === "multi-label" && !event.target.closest("button, summary, a")) form.requestSubmit();
  else return;
  event.preventDefault();
});
