"""For training programs: detect a suspension, exit after a checkpoint, and store a number for the next run."""

from __future__ import annotations

import operator
import os
import pathlib
import threading
from typing import NoReturn

_LARGEST = 2**31 - 1  # HAI keeps 32 bits


def suspended() -> bool:
    """Return whether HAI has announced that it takes the nodes away, at most 10 seconds after the notice."""
    return pathlib.Path(os.environ["TFSTEPS_SUSPEND_FILE"]).exists()


def leave() -> NoReturn:
    """Exit at once; call it after saving a checkpoint. The task resumes from it when HAI grants nodes again."""
    os._exit(0)


def remembered() -> int:
    """Return the number that this rank stored last, else the number stored by an earlier run of the task; 0 = none."""
    try:
        return int(pathlib.Path(os.environ["TFSTEPS_REMEMBER_FILE"]).read_text())
    except FileNotFoundError:
        return int(os.environ.get("MARSV2_WHOLE_LIFE_STATE") or 0)


def remember(number: int) -> None:
    """Store a whole number for the next run of the task, as HAI's whole-life state.

    Returns at once. The rank's wrapper sends the latest number to HAI's manager within 0.2 s, and retries until the
    manager answers; after the program has ended, for 5 s more (3 s in a suspension).

    Raises:
        TypeError: `number` is not a whole number.
        ValueError: `number` has more than 32 bits.
        OSError: The rank's temporary folder cannot be written.
    """
    value = operator.index(number)
    if not -_LARGEST <= value <= _LARGEST:
        raise ValueError(f"{value} has more than the 32 bits that HAI keeps")
    file = pathlib.Path(os.environ["TFSTEPS_REMEMBER_FILE"])
    written = file.with_name(f"{file.name}.{os.getpid()}.{threading.get_ident()}")
    written.write_text(str(value))
    written.replace(file)
