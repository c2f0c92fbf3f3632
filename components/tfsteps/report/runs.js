// The table of runs: rows that have all words of the filter, sorted by the column that was clicked.
{
  const DRAWN = 250; // rows at first: to lay out thousands takes seconds
  const table = document.querySelector("table.runs");
  if (table) {
    const box = document.getElementById("run-filter");
    const result = document.getElementById("run-matches");
    const more = document.getElementById("run-more");
    const rows = [...table.tBodies[0].rows];
    const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    const plural = (count) => `${count.toLocaleString("en")} run${count === 1 ? "" : "s"}`;
    const collator = new Intl.Collator("en", { numeric: true });
    let all = false;

    const draw = () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      const matches = rows.filter((row) => words.every((word) => texts.get(row).includes(word)));
      table.tBodies[0].replaceChildren(...(all ? matches : matches.slice(0, DRAWN)));
      result.textContent = words.length ? `${matches.length.toLocaleString("en")} of ${plural(rows.length)}` : plural(rows.length);
      more.hidden = all || matches.length <= DRAWN;
      more.textContent = `Show all ${plural(matches.length)}`;
    };
    box.addEventListener("input", draw);
    box.parentElement.hidden = false;
    more.addEventListener("click", () => {
      all = true;
      draw();
      table.parentElement.focus();
    });

    // A value that is not known is last in both directions, and equal values stay in their order.
    const sort = (column, direction) => {
      const keyed = rows.map((row) => ({ row, key: row.cells[column].dataset.key ?? row.cells[column].textContent }));
      const known = keyed.filter(({ key }) => key !== "");
      const numeric = known.every(({ key }) => !Number.isNaN(Number(key)));
      const compare = numeric ? (a, b) => a - b : collator.compare;
      const sign = direction === "descending" ? -1 : 1;
      known.sort((a, b) => sign * compare(a.key, b.key));
      rows.splice(0, rows.length, ...[...known, ...keyed.filter(({ key }) => key === "")].map(({ row }) => row));
      draw();
    };
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const first = head.dataset.first ?? "ascending";
        const other = first === "ascending" ? "descending" : "ascending";
        const direction = head.getAttribute("aria-sort") === first ? other : first;
        for (const each of heads) each.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", direction);
        sort(column, direction);
      });
    });
    draw();
  }
}
