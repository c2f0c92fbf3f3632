"""Splits the bytes of a pod's log into blocks of whole lines while they arrive."""

from collections.abc import Iterable, Iterator

LONGEST_LINE = (1 << 20) + 100
"""Bytes of a line and its time stamp. Lines up to 1 MiB are kept whole; longer lines are split at this size."""


class Splitter:
    """Splits an answer into blocks of whole lines while it arrives.

    Attributes:
        rest: The bytes after the last line end.
    """

    def __init__(self) -> None:
        """Begin at the start of an answer."""
        self.rest = bytearray()
        self._continued = False

    def blocks(self, parts: Iterable[bytes], *, rest: bool = False) -> Iterator[tuple[bytes, bool]]:
        """Yield the blocks of all `parts`; with `rest`, also an unfinished last line."""
        for part in parts:
            yield from self.feed(part)
        if rest:
            yield from self.end()

    def end(self) -> Iterator[tuple[bytes, bool]]:
        """Yield the unfinished last line, if there is one."""
        if self.rest:
            yield bytes(self.rest) + b"\n", self._continued

    def feed(self, part: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield blocks of lines with line ends, and whether the first line continues the last of the block before."""
        self.rest += part
        while self.rest.find(b"\n", 0, LONGEST_LINE + 1) < 0 and len(self.rest) > LONGEST_LINE:
            yield bytes(self.rest[:LONGEST_LINE]) + b"\n", self._continued
            del self.rest[:LONGEST_LINE]
            self._continued = True
        if end := self.rest.rfind(b"\n") + 1:
            block = bytes(self.rest[:end])
            del self.rest[:end]
            if self._continued and block.startswith(b"\n"):  # only the line end was missing
                block = block[1:]
                self._continued = False
            if block:
                yield block, self._continued
            self._continued = False
