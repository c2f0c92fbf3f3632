"""Markup: what comes from outside stays text."""

import html.parser
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfsteps.report.html import _SURROGATES, _UNPRINTABLE, Html, escape, tag


class Reader(html.parser.HTMLParser):
    """Collects the tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(text=st.text(), value=st.text())
def test_text_and_attributes_never_become_markup(text, value):
    read = Reader(tag("p", text, title=value))
    assert [name for name, _ in read.tags] == ["p"]
    assert list(read.tags[0][1]) == ["title"]
    tag("p", text, title=value).encode()


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (tag("p", "a<b>&\"'"), "<p>a&lt;b&gt;&amp;&quot;&#x27;</p>"),
        (tag("p", Html("<b>x</b>"), None, "y"), "<p><b>x</b>y</p>"),
        (tag("path", d="M0"), '<path d="M0"/>'),
        (tag("p", class_="a", data_x=1.0, hidden=True, open=False, id=None), '<p class="a" data-x="1" hidden></p>'),
        (tag("rect", x=1 / 3, width=100.0), '<rect x="0.33" width="100"/>'),
        (escape("\x1b[31m\x00\x7f\x85\u202e\ud800\t\n"), "␛[31m␀␡\ufffd\ufffd\ufffd\t\n"),
    ],
)
def test_forms(html, expected):
    assert html == expected


def test_printable_text_has_no_character_that_is_replaced():
    printable = "".join(filter(str.isprintable, map(chr, range(sys.maxunicode + 1))))
    assert not set(map(ord, printable)) & _UNPRINTABLE.keys()
    assert not _SURROGATES.search(printable)
