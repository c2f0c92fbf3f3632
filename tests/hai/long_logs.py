"""Ranks that print for long as much as the platform lets through, under a clock of its own: what of it is read.

`python -m tests.hai.long_logs [MINUTES]`; an hour of four ranks takes some minutes.
"""

import pathlib
import random
import sys
import tempfile
from dataclasses import dataclass

from tests.hai import pods
from tests.hai.printing import BEGUN, NOTE, Chain, Rank
from tfsteps.kube.credentials import Access
from tfsteps.platforms.hai.client import Client
from tfsteps.platforms.hai.logs import RankLog

_PIECES = 10  # a second
_PIECE = pods.RATE // _PIECES
_WORDS = "loss 0.1234 \u635f\u5931 " * 40


@dataclass
class Outcome:
    """What became of the lines of all ranks.

    Attributes:
        lines: How many were printed.
        lost, doubled, gaps: How many were not read, or again; how often a gap was said.
        files: How many files were begun.
        largest: Bytes of the largest answer.
        asked: How often the platform was asked.
    """

    lines: int = 0
    lost: int = 0
    doubled: int = 0
    gaps: int = 0
    files: int = 0
    largest: int = 0
    asked: int = 0


class _Printing:
    """One rank, and its reader; each line begins with its number."""

    def __init__(self, chain, client, rank, outcome):
        self._rank = Rank(chain.folder(), rank)
        self._rank.print(BEGUN)
        self._random = random.Random(rank)
        self._log = RankLog()
        self._outcome = outcome
        self._ask = lambda last_seen: self._measured(client.log_once(chain.id, rank, last_seen))
        self._printed = self._next = 0

    def _measured(self, answer):
        self._outcome.asked += 1
        self._outcome.largest = max(self._outcome.largest, len(answer["data"].encode()))
        return answer

    def second(self):
        """Print for a second."""
        second = self._rank.now + 1
        for _ in range(_PIECES):
            while self._rank.waiting < _PIECE:
                self._rank.now += 0.00001
                self._rank.print(b"%d %b\n" % (self._printed, _WORDS[: self._random.randrange(300)].encode()))
                self._printed += 1
            self._rank.write(_PIECE)
        self._rank.lines.clear()
        self._rank.now = max(second, self._rank.now)

    def read(self, *, whole=False):
        """Read what is new; tell whether there was something."""
        entries = self._log.read(self._ask, whole=whole)
        for _, text in entries:
            if not isinstance(text, bytes):
                continue
            if NOTE.fullmatch(text.decode()):
                self._outcome.gaps += 1
                continue
            number = int(text.partition(b" ")[0])
            self._outcome.doubled += number < self._next
            self._outcome.lost += max(0, number - self._next)
            self._next = max(self._next, number + 1)
        return bool(entries)

    def end(self):
        self._rank.write()
        self._outcome.files += self._rank.files
        self._outcome.lines += self._printed
        self._rank.stop()
        while self.read(whole=True):
            pass
        self._outcome.lost += self._printed - self._next


def run(folder, seconds, ranks):
    """Print for some seconds of the ranks' clock, asked each second as the launcher does, over HTTP."""
    outcome = Outcome()
    with Chain(folder) as chain:
        access = Access(server=chain.url, namespace="", tls=None, token=lambda _: "secret-token", name="HAI")
        printing = [_Printing(chain, Client(access), rank, outcome) for rank in range(ranks)]
        for _ in range(seconds):
            for item in printing:
                item.second()
                item.read()
        for item in printing:
            item.end()
    return outcome


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(run(pathlib.Path(folder), int(60 * float((sys.argv[1:] or ["60"])[0])), 4))
