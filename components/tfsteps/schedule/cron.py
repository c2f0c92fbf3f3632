"""Cron expressions of five fields: minute, hour, day of month, month, day of week.

They have the meaning that they have in Argo and Kubernetes (robfig/cron v3); Sunday may also be written as 7. If one of
the day fields is `*`, a day must match both; if both are restricted, a day must match one of them. `*/2` restricts.
"""

import re
from collections.abc import Iterable
from typing import Self

import msgspec

from tfsteps.spec.problems import RefusedError

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
ALLOWED = "five fields: minute, hour, day of month, month, day of week; or " + ", ".join(MACROS)
_EXAMPLE = "Write something like `0 9 * * 1-5`"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PIECE = re.compile(r"(?P<first>[*?]|\w+)(-(?P<last>\w+))?(/(?P<step>[0-9]{1,3}))?", re.ASCII)
_RUN = 3  # consecutive numbers; from this many on a range is shorter than a list


class _Bounds(msgspec.Struct, frozen=True):
    """The smallest and the greatest number of a field, and its names; Sunday is 0, or 7 as the end of a range."""

    label: str
    low: int
    high: int
    names: dict[str, int] = {}

    @property
    def greatest(self) -> int:
        return 7 if self.label == "day of week" else self.high


_MINUTE = _Bounds("minute", 0, 59)
_HOUR = _Bounds("hour", 0, 23)
_DAY = _Bounds("day of month", 1, 31)
_MONTH = _Bounds("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)})
_WEEKDAY = _Bounds("day of week", 0, 6, {name: number for number, name in enumerate(_DAYS)})


class Field(msgspec.Struct, frozen=True):
    """The numbers that match; `star` = the field does not restrict anything (`*`)."""

    values: frozenset[int]
    star: bool = False


class Cron(msgspec.Struct, frozen=True, kw_only=True):
    """A cron expression. Days of the week count from Sunday, 0."""

    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the cron expression in `text`, which may be a macro such as `@daily`.

        Raises:
            RefusedError: `text` is not a cron expression.
        """
        words = text.split()
        if words and words[0].startswith("@"):
            words = _macro(" ".join(words)).split()
        if len(words) != 5:
            raise RefusedError(f"has {len(words)} fields, not five", _count(words), ALLOWED)
        bounds = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)
        fields = [_field(word, field_bounds) for word, field_bounds in zip(words, bounds, strict=True)]
        return cls(minute=fields[0], hour=fields[1], day=fields[2], month=fields[3], weekday=fields[4])

    def text(self) -> str:
        """Return the expression as the five fields of robfig/cron v3, with Sunday as 0."""
        fields = (
            _text(self.minute.values, _MINUTE),
            _text(self.hour.values, _HOUR),
            "*" if self.day.star else _listed(self.day.values),
            "*" if self.month.star else _listed(self.month.values),
            "*" if self.weekday.star else _listed(self.weekday.values),
        )
        return " ".join(fields)

    def with_seconds(self) -> str:
        """Return the expression as the six fields of robfig/cron v1.2, seconds first.

        In v1.2 `*/2` in a day field counts as unrestricted; `text` never writes it.
        """
        return f"0 {self.text()}"

    @property
    def any_day(self) -> bool:
        """Whether it fires on every day of the year."""
        every_day = len(self.day.values) == 31 and len(self.weekday.values) == 7
        either = not (self.day.star or self.weekday.star)
        one = either and (len(self.day.values) == 31 or len(self.weekday.values) == 7)
        return len(self.month.values) == 12 and (every_day or one)


def _macro(word: str) -> str:
    if word.startswith("@every"):
        raise RefusedError("is an interval", f"Write `interval: {word[7:] or '90m'}` instead of `cron`")
    if word.lower() not in MACROS:
        raise RefusedError("is not a macro", _EXAMPLE, ALLOWED)
    return MACROS[word.lower()]


def _count(words: list[str]) -> str:
    match words:
        case ["0", *rest] if len(words) == 6:
            return f"Leave the seconds out: `{' '.join(rest)}`"
        case [_, *rest] if len(words) == 6:
            return f"Leave the seconds out, runs start at whole minutes: `{' '.join(rest)}`"
        case _:
            return _EXAMPLE


def _field(word: str, bounds: _Bounds) -> Field:
    pieces = [_piece(piece, bounds) for piece in word.split(",")]
    values = frozenset(number % 7 if bounds is _WEEKDAY else number for piece in pieces for number in piece.values)
    return Field(values, any(piece.star for piece in pieces))


def _piece(piece: str, bounds: _Bounds) -> Field:
    match = _PIECE.fullmatch(piece)
    if not match:
        raise _refusal(piece, bounds, "cannot be read")
    step = int(match["step"] or 1)
    if step == 0:
        raise _refusal(piece, bounds, "has a step of 0")
    if match["first"] in "*?":
        if match["last"]:
            raise _refusal(piece, bounds, "cannot be read")
        return Field(frozenset(range(bounds.low, bounds.high + 1, step)), star=step == 1)
    first = _number(match["first"], piece, bounds)
    if match["last"]:
        last = _number(match["last"], piece, bounds)
        if bounds is _WEEKDAY and last == 0 and first > 0:
            last = 7  # to Sunday, the week's last day
    else:
        last = bounds.high if match["step"] and first <= bounds.high else first
    if last < first:
        raise _refusal(piece, bounds, "ends before it begins")
    return Field(frozenset(range(first, last + 1, step)))


def _number(text: str, piece: str, bounds: _Bounds) -> int:
    if (named := bounds.names.get(text.lower())) is not None:
        return named
    if not text.isdecimal() or len(text) > 3:
        raise _refusal(piece, bounds, "cannot be read")
    number = int(text)
    if not bounds.low <= number <= bounds.greatest:
        raise _refusal(piece, bounds, "is out of range")
    return number


def _refusal(piece: str, bounds: _Bounds, wrong: str) -> RefusedError:
    names = f", or {', '.join(bounds.names)}" if bounds.names else ""
    fix = f"For the {bounds.label} write numbers from {bounds.low} to {bounds.greatest}{names}, with , - / and *"
    return RefusedError(f"is not a cron expression: the {bounds.label} {piece[:20]!r} {wrong}", fix)


# --- as text


def _text(values: Iterable[int], bounds: _Bounds) -> str:
    """Return the text of minutes or hours; in these fields `*` and `*/n` only mean their numbers."""
    numbers = sorted(values)
    for step in range(1, bounds.high):
        if numbers == list(range(bounds.low, bounds.high + 1, step)) and len(numbers) > 1:
            return "*" if step == 1 else f"*/{step}"
    return _listed(numbers)


def _listed(values: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(values):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) >= _RUN else ",".join(map(str, run)) for run in runs)
