"""HTML and SVG from nested calls. Text is escaped unless it was made here, so nothing from outside becomes markup."""

import html
import re
from collections.abc import Iterable

_VOID = {"meta", "link", "path", "rect", "circle", "line", "use", "br"}
# Shown, not obeyed: control characters become their pictures, what would reorder or break the text a replacement mark.
_UNPRINTABLE = {
    **{code: 0x2400 + code for code in range(32) if code not in (9, 10)},
    127: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF], 0xFFFD),
}
_SURROGATES = re.compile("[\ud800-\udfff]")


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | None
Attribute = str | float | bool | None


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return one element.

    Args:
        name: As in HTML or SVG.
        children: Markup, or text that is escaped here; None is left out.
        attributes: `class_` stands for `class`, `data_x` for `data-x`; True has no value, None and False are left out.
    """
    head = f"<{name}" + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"{head}/>")
    return Html(f"{head}>{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Html:
    """Return `children` one after the other, escaped where they are text."""
    return Html("".join(child if isinstance(child, Html) else escape(child) for child in children if child is not None))


def escape(text: str) -> Html:
    """Return `text` as markup that shows it, whatever it holds."""
    return Html(html.escape(_SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text).translate(_UNPRINTABLE)))


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{number(value) if isinstance(value, int | float) else escape(value)}"'


def number(value: float) -> str:
    """Return a coordinate, to a hundredth."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
