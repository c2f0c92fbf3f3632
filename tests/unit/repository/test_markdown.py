"""Lines that tests/support/markdown.py wraps are narrow, and mean what they meant in one line."""

import pytest

from tests.support.markdown import WIDTH, entry, table, wrapped


@pytest.mark.parametrize(
    "start", ["- one", "+ one", "* one", "3. Then", "10) one", "# one", "#1", "> 5", ">= 5", "| one"]
)
def test_no_line_begins_as_something_else(start):
    for length in range(WIDTH - 10, WIDTH):
        text = f"{'a' * length} {start} more"
        assert all(not line.startswith(start.split()[0]) for line in wrapped(text).splitlines())
        assert " ".join(wrapped(text).split("\n")) == text


def test_code_and_links_stay_whole():
    for length in range(WIDTH - 30, WIDTH):
        code, link = wrapped(f"{'a' * length} `b c  d`"), wrapped(f"{'a' * length} [b c](d.md), e")
        assert "`b c d`" in code
        assert "[b c](d.md)" in link
        assert max(map(len, (code + "\n" + link).splitlines())) <= WIDTH


def test_an_entry_is_indented_and_leaves_out_what_is_empty():
    assert entry("**a**", "b", ["c", "", "d"]) == "- **a** (c; d): b"
    assert entry("**a**") == "- **a**"
    first, *rest = entry("**a**", "word " * 40, depth=1).splitlines()
    assert first.startswith("    - **a**: word")
    assert all(line.startswith("      word") for line in rest)


def test_a_table_keeps_bars_in_its_cells():
    assert table(["a", "b"], [["c|d", "e"]]) == "| a | b |\n|---|---|\n| c\\|d | e |"
