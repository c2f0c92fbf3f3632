"""Makes text from replicas and other untrusted sources safe for terminals."""

import re

# Patterns are text, compiled at the first use: each command loads this module, and few need them.
# CSI sequences (colours, cursor), OSC sequences (titles, links), and any other escape.
_ESCAPES = r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)"
_COLOUR = r"\x1b\[[0-9;:]*m"
_COLOURS = f"({_COLOUR})"
# C0 and C1 controls except the tab; marks that change the text direction; line separators; surrogates.
_CONTROL = r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
_SUSPECT = re.compile(rb"[^\t\x20-\x7e]")
_RESET = "\x1b[0m"


def plain(text: str) -> str:
    """Return one line without escape sequences, colours and control characters.

    If carriage returns overwrite the line, as in progress bars, only its last state is returned.
    """
    return re.sub(_CONTROL, "", re.sub(_ESCAPES, "", _last_state(text)))


def shown(line: bytes) -> str:
    """Return one line for a terminal: colours are kept and reset at its end; other control characters are escaped."""
    text = line.decode(errors="backslashreplace")
    if not _SUSPECT.search(line):
        return text
    parts = re.split(_COLOURS, _last_state(text))
    parts[::2] = [re.sub(_CONTROL, _escaped, part) for part in parts[::2]]
    return "".join([*parts, _RESET] if len(parts) > 1 else parts)


def escaped(text: str) -> str:
    """Return text of several lines with all control characters escaped but line breaks and tabs."""
    return "\n".join(re.sub(_CONTROL, _escaped, line) for line in text.split("\n"))


def _last_state(text: str) -> str:
    return next((part for part in reversed(text.split("\r")) if part), "") if "\r" in text else text


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
