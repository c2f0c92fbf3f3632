"""Stops a random process of the cluster for a while and lets it go on, again and again, so that any party may be late.

Beside the tests it finds those that ask one party for what only another one knows yet.
"""

import argparse
import contextlib
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Party(NamedTuple):
    """Processes that do the same work.

    Attributes:
        name: What to call them.
        command: A pattern of their command lines.
        weight: How often one of them is drawn, compared with other parties.
        seconds: The longest that it stands still: shorter than what it holds leases for, and others have patience for.
    """

    name: str
    command: str
    weight: int
    seconds: float


PARTIES = [
    Party("operator", r"^workflow-controller|^/manager|^/bin/controller|-m tests\.controllers run", 6, 8),
    Party("launcher or step", r"-m tests\.conformance\.launcher|-m tfsteps|bin/tfsteps ", 4, 5),
    Party("controller manager", r"/kube-controller-manager ", 2, 5),
    Party("scheduler", r"/kube-scheduler ", 2, 4),
    Party("kubelet", r"/kubelet ", 2, 5),
    Party("API server", r"/kube-apiserver ", 1, 1),
    Party("etcd", r"/etcd ", 1, 0.5),
    Party("containerd", r"^containerd ", 1, 1),
]
_EVERY_SECONDS = 0.5  # between two, on average
_SHORTEST_SECONDS = 0.05


def disturb(seed: int) -> None:
    """Go on until SIGINT or SIGTERM; say then who stood still, and how often."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    dice, stood = random.Random(seed), Counter[str]()
    print(f"cluster: disturbing, seed {seed}; Ctrl-C ends it", flush=True)
    try:
        while True:
            time.sleep(dice.expovariate(1 / _EVERY_SECONDS))
            (party,) = dice.choices(PARTIES, [item.weight for item in PARTIES])
            if processes := sorted(_processes(party)):
                stood[party.name] += _still(dice.choice(processes), dice.uniform(_SHORTEST_SECONDS, party.seconds))
    except KeyboardInterrupt:
        print("cluster: stood still:", ", ".join(f"{name} {count}" for name, count in stood.most_common()), flush=True)


def _processes(party: Party) -> Iterator[int]:
    """Yield the ids of a party's processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if re.search(party.command, command) and int(folder.name) != os.getpid():
                yield int(folder.name)


def _still(process: int, seconds: float) -> bool:
    """Let a process stand still; tell whether it was there."""
    try:
        os.kill(process, signal.SIGSTOP)
    except ProcessLookupError:
        return False
    try:
        time.sleep(seconds)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="disturb", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    disturb(parser.parse_args().seed)
