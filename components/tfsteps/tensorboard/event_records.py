"""The records of TensorBoard event files, with the standard library alone.

An event file is a row of TFRecords: length, masked CRC-32C of the length, data, masked CRC-32C of the data. The data of
each is one `Event` protobuf. Nothing that such a file holds can raise anything but ValueError here.
"""

import functools
import math
import struct
from collections.abc import Iterator
from typing import NamedTuple

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}

# The keys of protobuf fields: number << 3 | wire type. A field of another wire type than it should have has another
# key, and so is passed over.
_EVENT_WALL_TIME, _EVENT_STEP = 1 << 3 | _FIXED64, 2 << 3 | _VARINT
_EVENT_VERSION, _EVENT_SUMMARY, _EVENT_SESSION = 3 << 3 | _BYTES, 5 << 3 | _BYTES, 7 << 3 | _BYTES
_SESSION_STATUS = 1 << 3 | _VARINT
_SESSION_START = 1
_SUMMARY_VALUE = 1 << 3 | _BYTES
_VALUE_TAG, _VALUE_SIMPLE, _VALUE_TENSOR = 1 << 3 | _BYTES, 2 << 3 | _FIXED32, 8 << 3 | _BYTES
_TENSOR_DTYPE, _TENSOR_SHAPE, _TENSOR_CONTENT = 1 << 3 | _VARINT, 2 << 3 | _BYTES, 4 << 3 | _BYTES
_SHAPE_DIM = 2 << 3 | _BYTES
# By TensorFlow's DataType (half, float, double): the form of one element, and the fields that may hold it instead.
_FORMS = {
    19: ("<e", (13 << 3 | _BYTES, 13 << 3 | _VARINT)),
    1: ("<f", (5 << 3 | _BYTES, 5 << 3 | _FIXED32)),
    2: ("<d", (6 << 3 | _BYTES, 6 << 3 | _FIXED64)),
}


class Event(NamedTuple):
    """One event, as far as scalars need it.

    Attributes:
        step: As the program counts; may be negative.
        wall_time: Seconds since the epoch; finite.
        scalars: Tag and value of each scalar; a value may be infinite or NaN.
        version: The version of the file's format; None = this event does not say it.
        starts: Whether a session starts here: TensorBoard drops what was written before of this step and later ones.
    """

    step: int
    wall_time: float
    scalars: list[tuple[str, float]]
    version: float | None = None
    starts: bool = False


def parse(record: bytes) -> Event:
    """Return a serialized `Event`. ValueError if it is none."""
    fields = dict(_fields(record))
    wall_time = _float("<d", fields.get(_EVENT_WALL_TIME, bytes(8)))
    session = dict(_fields(_raw(fields.get(_EVENT_SESSION, b""))))
    return Event(
        step=_number(fields.get(_EVENT_STEP, 0)),
        wall_time=wall_time if math.isfinite(wall_time) else 0.0,
        scalars=list(_scalars(_raw(fields.get(_EVENT_SUMMARY, b"")))),
        version=_version(_raw(fields[_EVENT_VERSION])) if _EVENT_VERSION in fields else None,
        starts=session.get(_SESSION_STATUS) == _SESSION_START,
    )


def holds_summary(head: bytes) -> bool:
    """Return whether a long event that begins with `head` is a summary; wall time and step stand before it."""
    at = 0
    try:
        while at < len(head):
            key, at = _varint(head, at)
            if key not in (_EVENT_WALL_TIME, _EVENT_STEP):
                return key == _EVENT_SUMMARY
            at = at + 8 if key == _EVENT_WALL_TIME else _varint(head, at)[1]
    except ValueError:
        pass
    return False


def _version(text: bytes) -> float:
    """Return 2.0 for `brain.Event:2`, and -1.0 for what TensorBoard does not understand."""
    prefix, _, number = text.partition(b":")
    try:
        return float(number) if prefix == b"brain.Event" else -1.0
    except ValueError:
        return -1.0


def _scalars(summary: bytes) -> Iterator[tuple[str, float]]:
    for key, part in _fields(summary):
        if key == _SUMMARY_VALUE:
            item = dict(_fields(_raw(part)))
            value = _value(item)
            if value is not None and _VALUE_TAG in item:
                yield _raw(item[_VALUE_TAG]).decode(errors="replace"), value


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

_POLYNOMIAL = 0x82F63B78  # of CRC-32C, reflected: the highest bit is the coefficient of 1
_FOLDED = 1024  # bytes; what is longer is folded first


def masked_crc32c(data: bytes) -> int:
    """Return the CRC-32C of `data`, rotated and shifted as TFRecord files hold it."""
    crc = _crc(data) if len(data) <= _FOLDED else _crc_of_long(data)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _crc(data: bytes, crc: int = 0xFFFFFFFF) -> int:
    table = _crc_table()
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc


def _crc_of_long(data: bytes) -> int:
    """Return what `_crc` does, but by operations on numbers as long as the data: 4 MiB take 50 ms, not a second.

    The data is a polynomial over bits. Its first k bits, times x^(k + 32) modulo the CRC's polynomial, may stand k bits
    later instead: so each step halves the data.
    """
    rest, length = int.from_bytes(data, "little") ^ 0xFFFFFFFF, len(data) * 8
    while length > _FOLDED * 8:
        count = (length - 32) // 16 * 8
        first, factor = rest & ((1 << count) - 1), _power(count + 32)
        rest >>= count
        for bit in range(32):
            if factor >> bit & 1:
                rest ^= first << (bit + 1)
        length -= count
    return _crc(rest.to_bytes(length // 8, "little"), 0)


@functools.lru_cache(maxsize=1024)
def _power(exponent: int) -> int:
    """Return x to the power of `exponent`, modulo the CRC's polynomial, reflected."""
    product, square = 1 << 31, 1 << 30
    while exponent:
        if exponent & 1:
            product = _product(product, square)
        square = _product(square, square)
        exponent >>= 1
    return product


def _product(left: int, right: int) -> int:
    product = 0
    for bit in range(31, -1, -1):
        if left >> bit & 1:
            product ^= right
        right = right >> 1 ^ (_POLYNOMIAL if right & 1 else 0)
    return product


@functools.lru_cache(maxsize=1024)
def masked_crc_of_length(length: bytes) -> int:
    """Return the CRC of a record's length; the same few lengths come again and again."""
    return masked_crc32c(length)


@functools.cache
def _crc_table() -> tuple[int, ...]:
    table = []
    for number in range(256):
        crc = number
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return tuple(table)
