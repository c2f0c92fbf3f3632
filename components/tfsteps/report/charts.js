// The charts: values under the pointer or by the arrow keys, logarithmic axes, and the points as a CSV file.
{
  const charts = JSON.parse(document.getElementById("data").textContent);
  const make = (name, attributes, text = "") => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };
  const nearest = (steps, step) => {
    let low = 0, high = steps.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < step) low = middle + 1; else high = middle;
    }
    return low > 0 && step - steps[low - 1] <= steps[low] - step ? low - 1 : low;
  };

  // --- logarithmic axes

  const between = (low, high, factors) => {
    const values = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      values.push(...factors.map((factor) => Number(`${factor}e${power}`)));
    }
    return values.filter((value) => low <= value && value <= high);
  };
  const logTicks = (low, high) => {
    const decades = between(low, high, [1]);
    if (decades.length > 2) return decades.filter((_, i) => i % Math.ceil(decades.length / 7) === 0);
    const values = between(low, high, [1, 2, 5]);
    if (values.length > 2) return values;
    const rough = (high - low) / 5, unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= rough);
    const first = Math.ceil(low / step), count = Math.floor(high / step) - first + 1;
    return [...Array(count).keys()].map((i) => Number(((first + i) * step).toPrecision(12)));
  };
  const label = (value, digits) => {
    for (const [unit, factor, suffix] of [[1e9, 1e9, "G"], [1e6, 1e6, "M"], [1e4, 1e3, "k"]]) {
      if (value >= unit && value < 1e12) return `${Number((value / factor).toPrecision(digits))}${suffix}`;
    }
    return String(Number(value.toPrecision(digits)));
  };
  const labels = (values) => {
    for (let digits = 4; ; digits += 1) {
      const texts = values.map((value) => label(value, digits));
      if (digits === 7 || new Set(texts).size === values.length) return texts;
    }
  };
  const logScale = (values, bottom, top) => {
    let low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
    if (low === high) [low, high] = [low / 2, high * 2];
    const span = Math.log10(high) - Math.log10(low);
    const [start, length] = [Math.log10(low) - 0.06 * span, 1.12 * span];
    const at = (value) => bottom - (Math.log10(value) - start) / length * (bottom - top);
    return { at, ticks: logTicks(Math.max(10 ** start, Number.MIN_VALUE), 10 ** (start + length)) };
  };
  const logCurve = (curve, xOf, yOf, dots) => {
    let path = "", pen = "M";
    const circles = [];
    curve.steps.forEach((step, i) => {
      if (curve.values[i] <= 0) { pen = "M"; return; }
      const [cx, cy] = [xOf(step).toFixed(2), yOf(curve.values[i]).toFixed(2)];
      path += `${pen}${cx},${cy}`;
      pen = "L";
      if (dots) circles.push(make("circle", { cx, cy, r: 2.5 }));
    });
    return [make("path", { d: path }), ...circles];
  };

  for (const svg of document.querySelectorAll("[data-chart]")) {
    const { plot: [left, top, right, bottom], x: [x0, x1], y: [y0, y1], curves } = charts[svg.dataset.chart];
    const all = [...new Set(curves.flatMap((curve) => curve.steps))].sort((a, b) => a - b);
    const drawn = [...svg.querySelectorAll(".curve")];
    const colours = drawn.map((curve) => curve.getAttribute("class").split(" ")[1]);
    const cursor = svg.querySelector(".cursor");
    const xOf = (step) => left + (step - x0) / (x1 - x0) * (right - left);
    const linear = (value) => bottom - (value - y0) / (y1 - y0) * (bottom - top);
    let at = all.length - 1, yOf = linear;

    const clear = () => { cursor.replaceChildren(); hideTip(); };
    const show = (step) => {
      cursor.replaceChildren();
      at = nearest(all, step);
      const x = xOf(all[at]);
      cursor.append(make("line", { x1: x, x2: x, y1: top, y2: bottom }));
      const lines = [`step ${all[at].toLocaleString("en")}`];
      curves.forEach((curve, place) => {
        if (!curve.steps.length) return;
        const index = nearest(curve.steps, all[at]), value = curve.values[index];
        const away = curve.steps[index] === all[at] ? "" : ` (step ${curve.steps[index].toLocaleString("en")})`;
        if (yOf === linear || value > 0) {
          cursor.append(make("circle", { cx: xOf(curve.steps[index]), cy: yOf(value), r: 4, class: colours[place] }));
        }
        lines.push(`${curve.run}: ${value}${away}`);
      });
      const spot = new DOMPoint(x, top + 20).matrixTransform(svg.getScreenCTM());
      return [lines.join("\n"), spot];
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

    const figure = svg.closest("figure");
    const button = figure.querySelector("button.log");
    if (!button) continue;
    const values = curves.flatMap((curve) => curve.values), positive = values.filter((value) => value > 0);
    const axis = svg.querySelector(".grid.y"), before = [axis, ...drawn].map((group) => [group, [...group.childNodes]]);
    const note = document.createElement("p");
    note.className = "note";
    button.hidden = false;
    button.disabled = !positive.length;
    if (button.disabled) button.title = "No value of this chart is above 0.";
    button.addEventListener("click", () => {
      const on = yOf === linear;
      button.setAttribute("aria-pressed", on);
      clear();
      note.remove();
      if (!on) {
        yOf = linear;
        for (const [group, nodes] of before) group.replaceChildren(...nodes);
        return;
      }
      const scale = logScale(positive, bottom, top), missing = values.length - positive.length;
      yOf = scale.at;
      const texts = labels(scale.ticks);
      axis.replaceChildren(...scale.ticks.flatMap((value, i) => [
        make("line", { x1: left, x2: right, y1: yOf(value), y2: yOf(value) }),
        make("text", { x: left - 8, y: yOf(value) + 3.5, "text-anchor": "end" }, texts[i]),
      ]));
      drawn.forEach((group, i) => {
        group.replaceChildren(...logCurve(curves[i], xOf, yOf, group.querySelector("circle")));
      });
      const points = `${missing.toLocaleString("en")} of ${values.length.toLocaleString("en")} points`;
      if (missing) note.textContent = `Not on a log scale: ${points}, whose values are 0 or less.`;
      if (missing) figure.append(note);
    });
  }

  // --- the points as a CSV file

  const cell = (text) => {
    const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text; // a spreadsheet would run it as a formula
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  for (const button of document.querySelectorAll("button.csv")) {
    button.parentElement.hidden = false;
    button.addEventListener("click", () => {
      const rows = ["tag,run,step,value"];
      for (const svg of button.closest("section").querySelectorAll("[data-chart]")) {
        const { tag, curves } = charts[svg.dataset.chart];
        for (const { run, steps, values } of curves) {
          const head = `${cell(tag)},${cell(run)}`;
          steps.forEach((step, i) => rows.push(`${head},${step},${values[i]}`));
        }
      }
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([`${rows.join("\r\n")}\r\n`], { type: "text/csv" }));
      link.download = "curves.csv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    });
  }
}
