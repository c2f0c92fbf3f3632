"use strict";
{
  const tip = document.getElementById("tip");
  const charts = JSON.parse(document.getElementById("data").textContent);
  const svgName = "http://www.w3.org/2000/svg";

  // --- one tooltip for everything

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

  const open = (name) => {
    const panel = name && document.getElementById(name);
    if (!(panel instanceof HTMLDetailsElement)) return false;
    panel.open = true;
    hideTip();
    panel.querySelector("summary").focus({ preventScroll: true });
    panel.scrollIntoView({ block: "start" });
    const log = panel.querySelector("pre");
    if (log) log.scrollTop = log.scrollHeight;
    return true;
  };
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    link.addEventListener("click", (event) => {
      if (open(link.getAttribute("href").slice(1))) event.preventDefault();
    });
  }
  for (const panel of document.querySelectorAll("details")) {
    panel.addEventListener("toggle", () => {
      const log = panel.querySelector("pre");
      if (panel.open && log) log.scrollTop = log.scrollHeight;
    });
  }
  open(location.hash.slice(1));

  // --- the values of the curves under the pointer, or by the arrow keys

  const nearest = (steps, step) => {
    let low = 0, high = steps.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < step) low = middle + 1; else high = middle;
    }
    return low > 0 && step - steps[low - 1] <= steps[low] - step ? low - 1 : low;
  };
  const draw = (parent, name, attributes) => {
    const element = document.createElementNS(svgName, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    parent.append(element);
  };

  for (const svg of document.querySelectorAll("[data-chart]")) {
    const { plot: [left, top, right, bottom], x: [x0, x1], y: [y0, y1], curves } = charts[svg.dataset.chart];
    const all = [...new Set(curves.flatMap((curve) => curve.steps))].sort((a, b) => a - b);
    const colours = [...svg.querySelectorAll(".curve")].map((curve) => curve.getAttribute("class").split(" ")[1]);
    const cursor = svg.querySelector(".cursor");
    const xOf = (step) => left + (step - x0) / (x1 - x0) * (right - left);
    const yOf = (value) => bottom - (value - y0) / (y1 - y0) * (bottom - top);
    let at = all.length - 1;

    const clear = () => { cursor.replaceChildren(); hideTip(); };
    const show = (step) => {
      cursor.replaceChildren();
      at = nearest(all, step);
      const x = xOf(all[at]);
      draw(cursor, "line", { x1: x, x2: x, y1: top, y2: bottom });
      const said = [`step ${all[at].toLocaleString("en")}`];
      curves.forEach((curve, place) => {
        if (!curve.steps.length) return;
        const index = nearest(curve.steps, all[at]);
        const away = curve.steps[index] === all[at] ? "" : ` (step ${curve.steps[index].toLocaleString("en")})`;
        draw(cursor, "circle", { cx: xOf(curve.steps[index]), cy: yOf(curve.values[index]), r: 4, class: colours[place] });
        said.push(`${curve.run}: ${curve.values[index]}${away}`);
      });
      const spot = new DOMPoint(x, top + 20).matrixTransform(svg.getScreenCTM());
      return [said.join("\n"), spot];
    };
    if (!all.length) continue;
    svg.addEventListener("pointermove", (event) => {
      const spot = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const [text] = show(x0 + (spot.x - left) / (right - left) * (x1 - x0));
      showTip(text, event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", clear);
    svg.addEventListener("blur", clear);
    svg.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: all.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const [text, spot] = show(all[Math.max(0, Math.min(all.length - 1, to))]);
      showTip(text, spot.x, spot.y);
    });
  }
}
