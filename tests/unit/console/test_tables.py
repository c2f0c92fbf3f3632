"""Tables for terminals: they fit, stay aligned, and lose the least."""

import pytest

from tfsteps.console.tables import table
from tfsteps.console.text import columns, duration

HEADER = ("RUN", "TASK", "STATE", "SYSTEM", "AGE")
ROWS = [["k7c2m9x4qp", "t" * 200, "succeeded", "local", "1m15s"], ["r2", "日本語" * 40, "failed", "local", "2h"]]


def drawn(width, spare=("SYSTEM", "AGE"), rows=ROWS):
    return table(HEADER, rows, width, spare)


def test_long_cells_are_cut_before_anything_else():
    first, second, third = (line.plain for line in drawn(80))
    assert first.split() == list(HEADER)
    assert second.split()[0::2] == ["k7c2m9x4qp", "succeeded", "1m15s"]
    assert set(second.split()[1]) == {"t", "…"}
    assert third.split()[-3:] == ["failed", "local", "2h"]


def test_names_that_differ_at_their_ends_are_cut_in_their_middle_and_sentences_at_their_end():
    ids = [f"mnist-{'a' * 180}-{i}" for i in (1, 2)]
    first, second = (line.plain for line in drawn(80, rows=[[run, "t", "failed", "local", "2h"] for run in ids])[1:])
    assert first.split()[0].startswith("mnist-aaaa")
    assert (first.split()[0][-3:], second.split()[0][-3:]) == ("a-1", "a-2")
    sentence = drawn(80, rows=[["r", "the pod was " + "x" * 100, "failed", "local", "2h"]])[1].plain
    assert "xxx…" in sentence


@pytest.mark.parametrize("width", [40, 60, 80])
def test_columns_stay_aligned_with_wide_characters(width):
    lines = drawn(width)
    starts = {
        line[: line.plain.index(word)].cell_len for line, word in zip(lines, ("STATE", "succ", "fail"), strict=True)
    }
    assert len(starts) == 1


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (60, ["RUN", "TASK", "STATE", "SYSTEM", "AGE"]),
        (48, ["RUN", "TASK", "STATE", "AGE"]),
        (40, ["RUN", "TASK", "STATE"]),
    ],
)
def test_columns_are_left_out_in_their_order(width, titles):
    assert drawn(width)[0].plain.split() == titles


@pytest.mark.parametrize("width", range(1, 60))
def test_nothing_is_wider_than_the_terminal(width):
    assert all(line.cell_len <= width for line in drawn(width))


def test_markup_in_a_cell_is_text():
    line = drawn(80, rows=[["[bold]x[/]", "[/]", "running", "local", "1s"]])[1]
    assert line.plain.split()[:2] == ["[bold]x[/]", "[/]"]


def test_a_state_has_a_colour_and_other_columns_have_none():
    line = drawn(80, rows=[["failed", "failed", "failed", "local", "1s"]])[1]
    assert [(line.plain[span.start : span.end].strip(), span.style) for span in line.spans if span.style] == [
        ("failed", "bold red")
    ]


def test_columns_for_pipes_are_aligned_and_whole():
    assert columns([["A", "B"], ["long " * 50, "x"], ["", "y"]]) == [
        f"A{' ' * 249}  B",
        f"{'long ' * 50}  x",
        f"{' ' * 250}  y",
    ]


@pytest.mark.parametrize(
    ("seconds", "shown"), [(None, "-"), (0, "0s"), (1.5, "1.5s"), (11.6, "12s"), (75, "1m15s"), (-3, "0s")]
)
def test_durations(seconds, shown):
    assert duration(seconds) == shown
