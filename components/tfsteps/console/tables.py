"""Tables that fit their terminal. Needs rich, so it is imported only where something is drawn."""

from collections.abc import Sequence

from rich.text import Text

from tfsteps.console.run_tree import TreeLine

_GAP = 2
_FLOOR = 12  # cells that a column keeps as long as other columns can be left out
_STYLES = {
    "succeeded": "green",
    "running": "cyan",
    "pending": "dim",
    "queued": "dim",
    "suspended": "yellow",
    "restarting": "yellow",
    "stopped": "dim",
    "cancelled": "yellow",
    "failed": "bold red",
    "lost": "bold red",
    "unknown": "bold red",
    "error": "bold red",
    "gone": "bold red",
}


def state_style(state: str) -> str:
    """Return the rich style for a state of a job or a replica."""
    return _STYLES.get(state, "")


def tree_line(line: TreeLine) -> Text:
    """Return a line of a run's tree, its state coloured."""
    text = Text(line.guide, "dim", no_wrap=True, overflow="ignore").append(line.text, "default")
    if line.state:
        text.append(": ").append(line.state, _STYLES.get(line.state.rpartition(" ")[2], _STYLES.get(line.state, "")))
    return text.append(line.rest)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int, spare: Sequence[str] = ()) -> list[Text]:
    """Return the lines of a table, none wider than `width` cells. Names that are too long are cut in their middle.

    Args:
        header: Column titles; cells below STATE are coloured by their text.
        rows: One text a column.
        width: Of the terminal, in cells.
        spare: Titles of the columns to leave out, in this order, when cutting long cells is not enough.
    """
    keep = list(range(len(header)))
    natural = [max(Text(row[i]).cell_len for row in [header, *rows]) for i in keep]
    for title in [*spare, None]:
        widths = _fit([natural[i] for i in keep], width - _GAP * (len(keep) - 1), _FLOOR if title else 1)
        if sum(widths) + _GAP * (len(keep) - 1) <= width or title is None:
            break
        keep = [i for i in keep if header[i] != title]
    lines = [_line([Text(header[i], "bold") for i in keep], widths, width)]
    for row in rows:
        cells = [Text(row[i], state_style(row[i]) if header[i] == "STATE" else "") for i in keep]
        lines.append(_line(cells, widths, width))
    return lines


def _fit(widths: list[int], room: int, floor: int) -> list[int]:
    """Return `widths`, the widest cut first, until they fit into `room` or none is wider than `floor`."""
    widths = list(widths)
    while sum(widths) > room and max(widths) > floor:
        widths[widths.index(max(widths))] -= 1
    return widths


def _line(cells: Sequence[Text], widths: Sequence[int], width: int) -> Text:
    for cell, cells_wide in zip(cells, widths, strict=True):
        if cell.cell_len > cells_wide > 2 and cell.plain.isascii() and " " not in cell.plain:
            # names and ids often differ at their ends only; of a sentence, the beginning says more
            cell.plain = cell.plain[: cells_wide - cells_wide // 2 - 1] + "…" + cell.plain[-(cells_wide // 2) :]
        cell.truncate(cells_wide, overflow="ellipsis", pad=True)
    line = Text(" " * _GAP).join(cells)
    line.rstrip()
    line.truncate(width, overflow="ellipsis")
    line.no_wrap = True
    return line
