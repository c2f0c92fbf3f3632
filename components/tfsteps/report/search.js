// The search in the logs: it shows the lines that contain a text, and the replicas that have such lines.
{
  const DELAY = 120; // milliseconds after the last key
  const OPENED = 200; // with at most so many matching lines, their panels are opened
  const MARKS = 20; // highlighted places in a line
  const box = document.getElementById("log-search");
  const result = document.getElementById("log-matches");
  const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

  const readPanel = (panel) => {
    const log = panel.querySelector("pre");
    const nodes = log ? [...log.childNodes] : []; // for each line a time and a text
    const lines = [];
    for (let i = 0; i + 1 < nodes.length; i += 2) {
      const text = nodes[i + 1].textContent;
      lines.push({ time: nodes[i].textContent, text, lower: text.toLowerCase() });
    }
    const count = document.createElement("span");
    count.className = "matches";
    panel.querySelector("summary").append(count);
    return { panel, log, nodes, lines, count, matches: lines, shown: "" };
  };

  const highlighted = (line, wanted) => {
    const time = document.createElement("i");
    time.textContent = line.time;
    const parts = [time];
    let from = 0;
    for (let i = 0; i < MARKS; i += 1) {
      const at = line.lower.length === line.text.length ? line.lower.indexOf(wanted, from) : -1;
      if (at < 0) break;
      const mark = document.createElement("mark");
      mark.textContent = line.text.slice(at, at + wanted.length);
      parts.push(line.text.slice(from, at), mark);
      from = at + wanted.length;
    }
    parts.push(line.text.slice(from));
    return parts;
  };

  if (box) {
    let panels = null, before = null, wanted = "", timer = 0;

    // Matches are drawn in open panels only, so that a broad search does not freeze the page. After a search all panels
    // have all their lines again, because the browser's own search finds text in closed panels, too.
    const draw = (entry) => {
      if (!entry.log || entry.shown === wanted || (wanted && !entry.panel.open)) return;
      entry.shown = wanted;
      entry.log.replaceChildren(...(wanted ? entry.matches.flatMap((line) => highlighted(line, wanted)) : entry.nodes));
    };
    const roles = document.querySelectorAll("details.role");
    const start = () => {
      if (panels) return;
      panels = [...document.querySelectorAll("details.replica")].map(readPanel);
      for (const entry of panels) entry.panel.addEventListener("toggle", () => draw(entry));
    };
    const finish = () => {
      for (const entry of panels) {
        entry.panel.hidden = false;
        entry.count.textContent = "";
      }
      for (const role of roles) role.hidden = false;
      for (const [element, open] of before) element.open = open;
      before = null;
      result.textContent = "";
    };
    const search = () => {
      wanted = box.value.trim().toLowerCase();
      start();
      if (!wanted) {
        if (before) finish();
        panels.forEach(draw);
        return;
      }
      before ??= [...roles, ...panels.map((entry) => entry.panel)].map((element) => [element, element.open]);
      let count = 0, lines = 0, replicas = 0;
      for (const entry of panels) {
        entry.matches = entry.lines.filter((line) => line.lower.includes(wanted));
        entry.shown = null;
        entry.panel.hidden = !entry.matches.length;
        entry.count.textContent = plural(entry.matches.length, "matching line");
        count += entry.matches.length;
        lines += entry.lines.length;
        replicas += entry.matches.length > 0;
      }
      for (const role of roles) {
        role.hidden = !role.querySelector("details.replica:not([hidden])");
        role.open = !role.hidden;
      }
      for (const entry of panels) entry.panel.open = count <= OPENED && !entry.panel.hidden;
      const where = `in ${replicas} of ${plural(panels.length, "replica")}`;
      result.textContent = count
        ? `${count.toLocaleString("en")} of ${plural(lines, "line")} ${count === 1 ? "matches" : "match"}, ${where}`
        : `None of ${plural(lines, "line")} matches`;
      panels.forEach(draw);
    };
    box.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(search, DELAY);
    });
    box.parentElement.hidden = false;
  }
}
