"""Ranks of a task that print, without processes: what the pipe of a rank writes, under a clock of its own."""

import datetime as dt
import json
import re

from tests.hai import pods
from tests.hai.platform import dumps
from tests.hai.server import Server

SCHEMA = {"name": "printing", "resource": {"node_count": 4}, "options": {}, "spec": {}}
BEGUN = b'::tfsteps::{"event": "begun"}\n'
_PIECE_SECONDS = 0.001
NOTE = re.compile(r"\(log incomplete: .*\)")


class Chain:
    """A chain of tasks on a platform that runs none: a test writes what its ranks print.

    Attributes:
        url: The platform's.
        sizes: Characters of each answer to a question for a log.
    """

    def __init__(self, folder):
        self.server = Server(folder, nodes=0)
        self._platform = self.server.platform
        self._task = self._platform.create(SCHEMA)
        self.sizes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.close()

    @property
    def url(self):
        return self.server.url

    @property
    def id(self):
        return self._task.chain_id

    def folder(self):
        """Return where the newest task has its logs."""
        return self._platform.folder / "logs" / str(self._task.id)

    def again(self):
        """Go on with another task of the chain."""
        with self._platform.lock:
            self._task.queue_status = "finished"
            self._task = self._platform.again(self._task)

    def ask(self, rank=0):
        """Return what asks for a rank's log, as the client does, but without a connection."""

        def ask(last_seen):
            query = {"chain_id": self.id, "rank": str(rank), "last_seen": json.dumps(last_seen)}
            answer = json.loads(dumps(self.server._query_task_log(query, {})[1]))
            self.sizes.append(len(answer["data"]))
            return answer

        return ask


class Rank:
    """Prints lines to files that rotate, in pieces that a test cuts.

    Attributes:
        lines: The text of each line as its reader should have it: what came into files, decoded file by file.
        now: Its clock, in seconds since the epoch.
        files: How many files were begun.
    """

    def __init__(self, folder, rank, *, size=pods.FILE_SIZE, now=1_800_000_000.0):
        self.lines = []
        self.now = now
        self.files = 1
        self._folder, self._rank, self._size = folder, rank, size
        self._files = pods.Files(folder, rank, size=size)
        self._pending = b""
        self._parts = [b""]  # of the line that is being written: what each file has of it
        self._file = b""  # what the last file has

    def print(self, line):
        """Print a line; it is not in a file yet."""
        self._pending += pods.stamped(line, dt.datetime.fromtimestamp(self.now, pods.ZONE))

    def write(self, size=None):
        """Write so many of the bytes that wait, None = all; but no piece begins with what looks like a time stamp."""
        size = size or len(self._pending)
        while size and self._pending[size : size + 3] == b"[20":
            size -= 1
        piece, self._pending = self._pending[:size], self._pending[size:]
        self.now += _PIECE_SECONDS  # the server sorts files by the time of their last piece
        if not piece:
            return
        if self._files.write(piece, self.now):
            self.files += 1
            self._parts.append(b"")
            self._file = b""
        self._file += piece
        *whole, rest = piece.split(b"\n")
        for line in whole:
            self._parts[-1] += line
            self._end()
        self._parts[-1] += rest

    @property
    def waiting(self):
        """How many bytes wait to be written."""
        return len(self._pending)

    def stop(self):
        """End as a pod that is killed: what waits is lost."""
        self._pending = b""
        if self.files > 1 and not re.search(rb"(^|\n)\[[^\n]{26}\] ", self._file):
            # The platform shows nothing of a file in which no line begins.
            if b"\n" in self._file:
                self.lines.pop()
                self._parts = self._ended
            self._parts = self._parts[:-1]
        if len(b"".join(self._parts)) > len("[2026-01-02 03:04:05.000001]"):
            self._end()

    def _end(self):
        text = "".join(part.decode(errors="replace") for part in self._parts)
        self.lines.append(text)
        self._ended, self._parts = self._parts, [b""]


def wrong(lines, entries, *, gaps):
    """Return what is wrong with what was read of `lines`; empty = nothing: each once and in order, or a gap is said."""
    place, gap = 0, False
    for stamp, what in entries:
        text = what.decode() if isinstance(what, bytes) else "::tfsteps::" + json.dumps(what)
        if NOTE.fullmatch(text):
            if not gaps:
                return f"a gap before line {place}"
            gap = True
            continue
        here = next((i for i in range(place, len(lines)) if same(lines[i], stamp, text)), None)
        if here is None and gap:
            continue  # the rest of a line whose beginning was overwritten
        if here is None or (here > place and not gap):
            return f"{text[:80]!r} is line {here}, not {place}: {lines[place : place + 1]!r:.120}"
        place, gap = here + 1, False
    return f"lines from {place} on are missing: {lines[place]!r:.120}" if place < len(lines) and not gap else ""


def same(line, stamp, text):
    """Tell whether a text that was read is a line, up to where the server cuts it."""
    stamp_length = 29
    expected = line[stamp_length:].removesuffix("\r")
    if stamp:
        at = dt.datetime.fromisoformat(stamp.decode()).astimezone(pods.ZONE)
        if at.strftime("[%Y-%m-%d %H:%M:%S.%f] ") != line[:stamp_length]:
            return False
    if text == expected:
        return True
    return text.endswith(pods.CUT) and len(expected) > 3900 and text[:3900] == expected[:3900]
