"use strict";
// The tooltip, and the panels of replicas.

const tip = document.getElementById("tip");
const showTip = (text, x, y) => {
  tip.textContent = text;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(x + 12, innerWidth - width - 8))}px`;
  tip.style.top = `${y + 18 + height > innerHeight ? Math.max(8, y - height - 12) : y + 18}px`;
};
const hideTip = () => { tip.hidden = true; };

for (const bar of document.querySelectorAll("[data-tip]")) {
  bar.addEventListener("pointermove", (event) => showTip(bar.dataset.tip, event.clientX, event.clientY));
  bar.addEventListener("pointerleave", hideTip);
  bar.addEventListener("blur", hideTip);
  bar.addEventListener("focus", () => {
    const box = bar.getBoundingClientRect();
    if (bar.matches(":focus-visible")) showTip(bar.dataset.tip, box.left, box.bottom - 12);
  });
}
addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
addEventListener("scroll", hideTip, { capture: true, passive: true });

// --- a replica's panel opens wherever the replica is clicked

const openPanel = (name) => {
  const panel = name && document.getElementById(name);
  if (!(panel instanceof HTMLDetailsElement)) return false;
  for (let part = panel; part; part = part.parentElement.closest("details")) {
    part.hidden = false; // the search may have hidden it
    part.open = true;
  }
  hideTip();
  panel.querySelector("summary").focus({ preventScroll: true });
  panel.scrollIntoView({ block: "start" });
  const log = panel.querySelector("pre");
  if (log) log.scrollTop = log.scrollHeight;
  return true;
};
for (const link of document.querySelectorAll('a[href^="#"]')) {
  link.addEventListener("click", (event) => {
    if (openPanel(link.getAttribute("href").slice(1))) event.preventDefault();
  });
}
for (const panel of document.querySelectorAll("details.replica")) {
  panel.addEventListener("toggle", () => {
    const log = panel.querySelector("pre");
    if (panel.open && log) log.scrollTop = log.scrollHeight;
  });
}
openPanel(location.hash.slice(1));
