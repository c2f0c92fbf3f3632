"""The answer to a question to the outside: yes, no, or not known. Imports nothing else of tfsteps.

A request that fails, is refused, or gets an answer of another shape tells nothing. Code that deletes, stops, ends,
judges or takes over something names the answer that it needs: `if answer.yes`, `if answer.no`.
"""

from typing import TYPE_CHECKING, Literal, NoReturn

import msgspec


class Answer(msgspec.Struct, frozen=True):
    """One of YES, NO, and `unknown(why)`.

    It has no truth value: mypy reports `if answer` (truthy-bool), and Python raises a TypeError.

    Attributes:
        value: The answer.
        why: Why the answer is not known, as the end of a sentence; empty for YES and NO.
    """

    value: Literal["yes", "no", "unknown"]
    why: str = ""

    @property
    def yes(self) -> bool:
        """Whether the answer is certainly yes."""
        return self.value == "yes"

    @property
    def no(self) -> bool:
        """Whether the answer is certainly no."""
        return self.value == "no"

    @property
    def unknown(self) -> bool:
        """Whether the answer is not known."""
        return self.value == "unknown"

    def __invert__(self) -> "Answer":
        """Return the answer to the opposite question."""
        return {"yes": NO, "no": YES}.get(self.value, self)

    def __and__(self, other: "Answer") -> "Answer":
        """Return whether both are yes: no if one of them is no, whatever the other is."""
        return next((answer for answer in (self, other) if answer.no), other if self.yes else self)

    def __or__(self, other: "Answer") -> "Answer":
        """Return whether one of them is yes, whatever the other is."""
        return ~(~self & ~other)

    if not TYPE_CHECKING:  # mypy must not find it: then it reports each use as a truth value

        def __bool__(self) -> NoReturn:
            raise TypeError("an Answer has no truth value: name the answer that the decision needs (`answer.yes`)")


YES, NO = Answer("yes"), Answer("no")


def known(value: bool) -> Answer:
    """Return the answer to a question whose answer is known."""
    return YES if value else NO


def unknown(why: object) -> Answer:
    """Return that the answer is not known; `why` is shown to people, as the end of a sentence."""
    return Answer("unknown", str(why) or "there was no answer")
