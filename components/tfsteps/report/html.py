"""HTML and SVG from nested calls. Text that is not `Html` is escaped, so that untrusted text never becomes markup."""

import html
import re
from collections.abc import Iterable

_VOID = {"meta", "link", "path", "rect", "circle", "line", "use", "br", "input", "img"}
# Control characters are shown as their pictures; marks that reorder or break text as the replacement character.
_UNPRINTABLE = {
    **{code: 0x2400 + code for code in range(32) if code not in (9, 10)},
    127: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF], 0xFFFD),
}
_SURROGATES = re.compile("[\ud800-\udfff]")


class Html(str):
    """Text that is already markup."""

    __slots__ = ()


Child = str | None
Attribute = str | float | bool | None


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return one element.

    Args:
        name: Name of the element in HTML or SVG.
        children: Markup, or text, which is escaped; None is left out.
        attributes: `class_` means `class`, `data_x` means `data-x`; True = without a value; None and False = left out.
    """
    head = f"<{name}"
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        head += f" {key.rstrip('_').replace('_', '-')}"
        if value is not True:
            head += f'="{escape(value) if isinstance(value, str) else number(value)}"'
    if name in _VOID:
        return Html(f"{head}/>")
    return Html(f"{head}>{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Html:
    """Return the concatenation of `children`; text is escaped."""
    return Html("".join(child if isinstance(child, Html) else escape(child) for child in children if child is not None))


def escape(text: str) -> Html:
    """Return `text` as markup that shows it, including control characters and surrogates."""
    return Html(html.escape(printable(text)))


def printable(text: str) -> str:
    """Return `text` with other characters in place of control characters, surrogates, and marks that reorder text."""
    if text.isprintable():  # nearly all text; no character to replace is printable
        return text
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text).translate(_UNPRINTABLE)


def number(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
