// Replaces the live part of the overview whenever the server sends it; the page works without this script as well.
"use strict";
document.documentElement.classList.add("scripted");
const live = document.getElementById("live");

function showConnected(on) {
  const light = live.querySelector(".live");
  if (light) light.classList.toggle("on", on);
}

const events = new EventSource("/manage/events");
events.addEventListener("open", () => showConnected(true));
events.addEventListener("error", () => showConnected(false));
events.addEventListener("message", (event) => {
  // What the manager has opened or is typing stays as it is.
  if (live.contains(document.activeElement) && document.activeElement.matches("input, select, button")) return;
  const open = new Set([...live.querySelectorAll("details[open]")].map((each) => each.dataset.of));
  live.innerHTML = JSON.parse(event.data);
  for (const each of live.querySelectorAll("details")) each.open = open.has(each.dataset.of);
  showConnected(true);
});
