"""Reading scalars from TensorBoard event files while they are being written, with the standard library alone.

An event file is a row of TFRecords: length, masked CRC-32C of the length, data, masked CRC-32C of the data.
The data of each is one `Event` protobuf. Nothing that such a file holds can raise here, or make more than `_MAX_RECORD`
be read at once.
"""

import functools
import math
import os
import pathlib
import stat
import struct
from collections import deque
from collections.abc import Iterator
from typing import IO, NamedTuple

POLL_BYTES = 8 << 20
"""One poll reads no more than this, and the record that it reached."""

_MAX_RECORD = 4 << 20  # what is larger holds images or graphs: it is passed over unread
_MAX_CHECKED = 64 << 10  # a CRC costs 0.1 us a byte here; records of scalars alone are some dozen bytes long

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}


def _key(number: int, wire: int) -> int:
    return number << 3 | wire


# The keys of protobuf fields. A field of another wire type than it should have has another key, and so is passed over.
_EVENT_WALL_TIME, _EVENT_STEP, _EVENT_SUMMARY = _key(1, _FIXED64), _key(2, _VARINT), _key(5, _BYTES)
_SUMMARY_VALUE = _key(1, _BYTES)
_VALUE_TAG, _VALUE_SIMPLE, _VALUE_TENSOR = _key(1, _BYTES), _key(2, _FIXED32), _key(8, _BYTES)
_TENSOR_DTYPE, _TENSOR_SHAPE, _TENSOR_CONTENT = _key(1, _VARINT), _key(2, _BYTES), _key(4, _BYTES)
_SHAPE_DIM = _key(2, _BYTES)
# By TensorFlow's DataType (half, float, double): the form of one element, and the fields that may hold it instead.
_FORMS = {
    19: ("<e", (_key(13, _BYTES), _key(13, _VARINT))),
    1: ("<f", (_key(5, _BYTES), _key(5, _FIXED32))),
    2: ("<d", (_key(6, _BYTES), _key(6, _FIXED64))),
}


class Scalar(NamedTuple):
    """One value of one curve.

    Attributes:
        run: The folder of its file below the log folder, with `/`; `.` for the log folder itself.
        tag: Name of the curve.
        step: As the program counts; may be negative.
        wall_time: Seconds since the epoch; finite.
        value: May be infinite or NaN.
    """

    run: str
    tag: str
    step: int
    wall_time: float
    value: float

    @property
    def name(self) -> str:
        """`<run>/<tag>`, or the tag alone for files in the log folder itself."""
        return self.tag if self.run == "." else f"{self.run}/{self.tag}"


class ScalarReader:
    """Reads the scalars of all event files below a folder, each once.

    A file is read up to its last whole record, and further when it has grown. One that holds something else
    than records is left alone from there on.

    Attributes:
        behind: Whether the last poll stopped at its limit: the next one will find more at once.
        denied: Path of a file or folder that this user may not read; empty = all may be read.
    """

    def __init__(self, logdir: str | os.PathLike[str]) -> None:
        """Name the folder; it need not exist yet."""
        self.behind, self.denied = False, ""
        self._logdir = pathlib.Path(logdir)
        self._files: dict[str, _File] = {}
        self._queue: deque[_File] = deque()  # the one that was read last stands last, so that none waits for ever

    def poll(self) -> list[Scalar]:
        """Return what is new since the last call, in the order of each file; empty if there is nothing."""
        self._discover()
        scalars: list[Scalar] = []
        budget = POLL_BYTES
        for _ in range(len(self._queue)):
            if budget <= 0:
                break
            file = self._queue.popleft()
            self._queue.append(file)
            try:
                budget -= file.read(budget, scalars)
            except PermissionError as error:
                self._deny(error)
        self.behind = budget <= 0
        return scalars

    def _discover(self) -> None:
        for folder, _, names in os.walk(self._logdir, onerror=self._deny):
            for name in names:
                path = os.path.join(folder, name)  # noqa: PTH118  thousands of files, once a second
                if "tfevents" in name and path not in self._files:
                    run = os.path.relpath(folder, self._logdir)
                    self._files[path] = _File(path, os.fsencode(run).decode(errors="replace"))
                    self._queue.append(self._files[path])

    def _deny(self, error: OSError) -> None:
        if isinstance(error, PermissionError):
            self.denied = os.fsdecode(error.filename)


class _File:
    """One event file, and how far it was read."""

    def __init__(self, path: str, run: str) -> None:
        self._path = path
        self._run = run
        self._at = 0
        self._broken = False

    def read(self, budget: int, scalars: list[Scalar]) -> int:
        """Append the new scalars to `found`; return how many bytes were read, at most `budget` and one record.

        PermissionError if it may not be read.
        """
        if self._broken:
            return 0
        before, spent = self._at, 0
        try:
            status = os.stat(self._path)  # noqa: PTH116  opening a fifo would hang
            if not stat.S_ISREG(status.st_mode) or status.st_size <= self._at:
                return 0
            with open(self._path, "rb") as file:  # noqa: PTH123
                file.seek(self._at)
                while spent < budget and (data := self._record(file, status.st_size)) is not None:
                    spent += 16 + len(data)
                    scalars += _scalars(self._run, data)
        except PermissionError:
            raise
        except OSError:  # it disappeared, or its disk fails: other files go on
            return self._at - before
        except ValueError:
            self._broken = True
        return spent

    def _record(self, file: IO[bytes], size: int) -> bytes | None:
        """Return the next record, empty if it is passed over; None if it is not whole yet. ValueError if it is none."""
        head = file.read(12)
        if len(head) < 12:
            return None
        if _length_crc(head[:8]) != _uint32(head[8:]):
            raise ValueError("not a record")
        (length,) = struct.unpack("<Q", head[:8])
        end = self._at + 16 + length
        if end > size:
            return None
        data = b""
        if length > _MAX_RECORD:
            file.seek(end)
        else:
            data, crc = file.read(length), file.read(4)
            if len(crc) < 4:
                return None
            if length <= _MAX_CHECKED and masked_crc32c(data) != _uint32(crc):
                raise ValueError("damaged record")
        self._at = end
        return data


# --- protobuf


def _scalars(run: str, record: bytes) -> list[Scalar]:
    """Return the scalars in one serialized `Event`. ValueError if it is none."""
    event = dict(_fields(record))
    if _EVENT_SUMMARY not in event:
        return []
    wall_time = _float("<d", event.get(_EVENT_WALL_TIME, bytes(8)))
    step = _number(event.get(_EVENT_STEP, 0))
    scalars = []
    for key, part in _fields(_raw(event[_EVENT_SUMMARY])):
        if key != _SUMMARY_VALUE:
            continue
        item = dict(_fields(_raw(part)))
        value = _value(item)
        if value is not None and _VALUE_TAG in item:
            tag = _raw(item[_VALUE_TAG]).decode(errors="replace")
            scalars.append(Scalar(run, tag, step, wall_time if math.isfinite(wall_time) else 0.0, value))
    return scalars


def _value(item: dict[int, int | bytes]) -> float | None:
    """Return the scalar in a `Summary.Value`; None if it holds something else."""
    if _VALUE_SIMPLE in item:
        return _float("<f", item[_VALUE_SIMPLE])
    return _tensor_scalar(_raw(item[_VALUE_TENSOR])) if _VALUE_TENSOR in item else None


def _tensor_scalar(tensor: bytes) -> float | None:
    """Return the value of a `TensorProto` without dimensions that holds a floating point number; None for any other."""
    fields = dict(_fields(tensor))
    form, elsewhere = _FORMS.get(_number(fields.get(_TENSOR_DTYPE, 0)), ("", ()))
    if not form or any(key == _SHAPE_DIM for key, _ in _fields(_raw(fields.get(_TENSOR_SHAPE, b"")))):
        return None
    raw = next((fields[key] for key in (_TENSOR_CONTENT, *elsewhere) if key in fields), None)
    if raw is None:  # protobuf leaves a zero out
        return 0.0
    if form == "<e" and _TENSOR_CONTENT not in fields:  # the bits of a half, as a number
        bits = raw if isinstance(raw, int) else _varint(raw, 0)[0]
        raw = (bits & 0xFFFF).to_bytes(2, "little")
    return _float(form, raw)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the key of each field, and an int for a varint, else its bytes. ValueError if it is no message."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        wire = key & 7
        if wire == _VARINT:
            number, at = _varint(message, at)
            yield key, number
            continue
        size = _SIZES.get(wire, 0)
        if wire == _BYTES:
            size, at = _varint(message, at)
        elif not size:
            raise ValueError("unknown wire type")
        if at + size > len(message):
            raise ValueError("field longer than its message")
        yield key, message[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at`, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise ValueError("number without an end")


def _number(value: int | bytes) -> int:
    """Return a varint field as the signed 64-bit number that it stands for."""
    number = int(value)
    return number - (1 << 64) if number >> 63 else number


def _raw(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)  # its key says so
    return value


def _float(form: str, value: int | bytes) -> float:
    raw = _raw(value)
    if len(raw) != struct.calcsize(form):
        raise ValueError("not one number")
    (number,) = struct.unpack(form, raw)
    return float(number)


# --- CRC


def masked_crc32c(data: bytes) -> int:
    """Return the CRC-32C of `data`, rotated and shifted as TFRecord files hold it."""
    crc = 0xFFFFFFFF
    table = _crc_table()
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@functools.lru_cache(maxsize=1024)
def _length_crc(length: bytes) -> int:
    """Return the CRC of a record's length; the same few lengths come again and again."""
    return masked_crc32c(length)


@functools.cache
def _crc_table() -> tuple[int, ...]:
    table = []
    for number in range(256):
        crc = number
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


def _uint32(raw: bytes) -> int:
    return int.from_bytes(raw, "little")
