"""Writes TensorBoard event files with the standard library, as TensorFlow 1's and tensorboardX's writers do."""

import base64
import itertools
import os
import pathlib
import socket
import struct
import tempfile
import time
from typing import Self

from tfsteps.tensorboard.event_records import masked_crc32c

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_numbers = itertools.count(1)


def by_shell(tag: str, *values: float) -> str:
    """Return a shell script that writes an event file with one curve to $TFSTEPS_LOG_DIR."""
    with tempfile.TemporaryDirectory() as folder:
        with ScalarWriter(folder) as writer:
            for step, value in enumerate(values):
                writer.scalar(tag, value, step)
        content = base64.b64encode(writer.path.read_bytes()).decode()
    name = '"$TFSTEPS_LOG_DIR/events.out.tfevents.$(date +%s).$(hostname)"'
    return f'mkdir -p "$TFSTEPS_LOG_DIR"; echo {content} | base64 -d > {name}'


class ScalarWriter:
    """Appends scalars to a new event file in `logdir`.

    One unbuffered write for each event, so that a killed process leaves whole records.
    """

    def __init__(self, logdir: str | os.PathLike[str]) -> None:
        folder = pathlib.Path(logdir)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self.path = folder / name
        self._file = self.path.open("ab", buffering=0)
        self._write(event(field(3, _BYTES, b"brain.Event:2")))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def scalar(self, tag: str, value: float, step: int, wall_time: float | None = None) -> None:
        """Write one value; `wall_time` in seconds since the epoch, None = now."""
        item = field(1, _BYTES, tag.encode()) + field(2, _FIXED32, struct.pack("<f", value))
        self.summary(item, step, wall_time)

    def tensor(self, tag: str, tensor: bytes, step: int, wall_time: float | None = None) -> None:
        """Write one serialized TensorProto."""
        self.summary(field(1, _BYTES, tag.encode()) + field(8, _BYTES, tensor), step, wall_time)

    def summary(self, item: bytes, step: int, wall_time: float | None = None) -> None:
        """Write one serialized Summary.Value."""
        body = field(2, _VARINT, varint(step)) + field(5, _BYTES, field(1, _BYTES, item))
        self._write(event(body, wall_time))

    def raw(self, data: bytes) -> None:
        """Write bytes as they are."""
        self._file.write(data)

    def close(self) -> None:
        self._file.close()

    def _write(self, data: bytes) -> None:
        self._file.write(record(data))


def record(data: bytes) -> bytes:
    """Return `data` as one TFRecord."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def event(body: bytes, wall_time: float | None = None) -> bytes:
    """Return a serialized Event."""
    return field(1, _FIXED64, struct.pack("<d", time.time() if wall_time is None else wall_time)) + body


def field(number: int, wire: int, payload: bytes) -> bytes:
    """Return one protobuf field; a length goes before the payload of wire type 2."""
    head = varint(number << 3 | wire)
    return head + varint(len(payload)) + payload if wire == _BYTES else head + payload


def varint(number: int) -> bytes:
    """Return a number as protobuf holds it, negative ones in ten bytes."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
