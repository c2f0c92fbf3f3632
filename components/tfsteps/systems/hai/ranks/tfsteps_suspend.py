"""For the training program: whether it is about to be suspended, how to leave, and what to remember."""

from __future__ import annotations

import operator
import os
import pathlib
import threading
from typing import NoReturn

_LARGEST = 2**31 - 1  # HAI keeps 32 bits


def suspended() -> bool:
    """Tell whether HAI has announced that it will take the nodes away, 10 seconds after that at the latest."""
    return pathlib.Path(os.environ["TFSTEPS_SUSPEND_FILE"]).exists()


def leave() -> NoReturn:
    """End this process now that its checkpoint is saved. The task goes on from there when it gets nodes again."""
    os._exit(0)


def remembered() -> int:
    """Return the number that this rank remembered last, else the one that an earlier run of the task did; 0 = none."""
    try:
        return int(pathlib.Path(os.environ["TFSTEPS_REMEMBER_FILE"]).read_text())
    except FileNotFoundError:
        return int(os.environ.get("MARSV2_WHOLE_LIFE_STATE") or 0)


def remember(number: int) -> None:
    """Keep a whole number for the next run of the task: HAI's whole-life state.

    Returns at once. The rank's wrapper sends the latest number to HAI's manager, within 0.2 s, and tries again until
    it answers; when the program has ended, for 5 s more (3 s in a suspension).

    Raises:
        TypeError: It is not a whole number.
        ValueError: It has more than 32 bits.
        OSError: The rank's temporary folder cannot be written.
    """
    value = operator.index(number)
    if not -_LARGEST <= value <= _LARGEST:
        raise ValueError(f"{value} has more than the 32 bits that HAI keeps")
    file = pathlib.Path(os.environ["TFSTEPS_REMEMBER_FILE"])
    written = file.with_name(f"{file.name}.{os.getpid()}.{threading.get_ident()}")
    written.write_text(str(value))
    written.replace(file)
