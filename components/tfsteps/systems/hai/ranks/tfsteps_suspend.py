"""For the training program: whether it is about to be suspended, how to leave, and what to remember."""

from __future__ import annotations

import os
import pathlib
import pickle
import socket
from typing import Any, NoReturn


def suspended() -> bool:
    """Tell whether HAI has announced that it will take the nodes away, within seconds."""
    return pathlib.Path(os.environ["TFSTEPS_SUSPEND_FILE"]).exists()


def leave() -> NoReturn:
    """End this process now that its checkpoint is saved. The task goes on from there when it gets nodes again."""
    os._exit(0)


def remembered() -> int:
    """Return the number that was remembered last, in this run of the task or an earlier one; 0 = none."""
    return int(os.environ.get("MARSV2_WHOLE_LIFE_STATE") or 0)


def remember(number: int) -> None:
    """Keep a whole number for the next run of the task: HAI's whole-life state. OSError if its manager is away."""
    tell_manager(source="set_whole_life_state", whole_life_state=number)


def tell_manager(**what: Any) -> None:
    """Tell the task's manager something in the platform's own form; what it answers is not looked at."""
    user = os.environ.get("MARSV2_USER", "").replace("_", "-")
    host = "{}-{}-manager-0".format(user, os.environ.get("MARSV2_TASK_ID", ""))
    body = pickle.dumps(what)
    with socket.create_connection((host, 7000), 1.0) as connection:
        connection.sendall(str(len(body) + 8).rjust(8).encode() + body)
        connection.recv(1024)
