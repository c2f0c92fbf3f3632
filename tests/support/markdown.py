"""What generated pages consist of: paragraphs and list entries in lines of at most 120 columns, and tables."""

import re
import textwrap

WIDTH = 120
_STARTS_A_BLOCK = re.compile(r" (?=(?:[-+*]|\d+[.)])(?: |$)|[#>|=]|!!!|```)")
_WHOLE = re.compile(r"`[^`]+`|\[[^\]]+\]\([^)]+\)")


def wrapped(text, first="", rest=""):
    """Return a paragraph, in which code and links stay whole, and no line begins like a list, a heading or a quotation.

    Args:
        text: The paragraph; how its words are separated does not matter.
        first: What the first line begins with.
        rest: What all other lines begin with.
    """
    text = _WHOLE.sub(lambda match: match[0].replace(" ", "\0"), " ".join(text.split()))
    lines = textwrap.fill(
        _STARTS_A_BLOCK.sub("\0", text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines.replace("\0", " ")


def entry(head, text="", facts=(), depth=0):
    """Return an entry of a list: `- head (fact; fact): text`.

    Args:
        head: What the entry is about.
        text: What is said of it, in sentences; empty = nothing.
        facts: Short ones; empty ones are left out.
        depth: In how many entries it is.
    """
    indent = " " * 4 * depth
    known = "; ".join(filter(None, facts))
    return wrapped(f"{head}{known and f' ({known})'}{text and f': {text}'}", f"{indent}- ", f"{indent}  ")


def table(header, rows):
    """Return a table: for short cells, which a reader compares across its rows."""
    lines = [" | ".join(cell.replace("|", r"\|") for cell in row) for row in (header, *rows)]
    return "\n".join([f"| {lines[0]} |", "|" + "---|" * len(header), *(f"| {line} |" for line in lines[1:])])
