"""Standard streams that are always there."""

import os
import sys


def ensure() -> None:
    """Open /dev/null for each standard stream that the parent process has closed (`>&-`).

    Else the next file that is opened takes its number, and what is printed, by us or by a child, goes into that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115  for the life of the process
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
