"""Records the history of Keras' `fit` as event files, as Keras' own TensorBoard callback names it.

Only in the replica that decides the job, and only of a `fit` without a TensorBoard callback that writes to the job's
folder of event files. `sitecustomize` loads
this file into the user's program: standard library only, Python 3.7 or newer.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import socket
import struct
import time
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MOST_MODELS = 20  # whose curves are recorded in one program
_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ 0x82F63B78 * (_byte & 1)
    _TABLE.append(_byte)


def record_fits(keras: Any) -> None:
    """Have each `Model.fit` of `keras`, the module, recorded. Does nothing in a replica that does not decide."""
    if not _decides():
        return
    original = keras.Model.fit
    signature = inspect.signature(original)
    recorder = _HistoryRecorder(keras, os.environ["TFSTEPS_LOG_DIR"])

    @functools.wraps(original)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(self, *args, **kwargs)
            if recorder.add_to(bound.arguments, self):
                args, kwargs = bound.args[1:], bound.kwargs
        except Exception:  # noqa: BLE001, S110  `fit` itself reports wrong arguments
            pass
        return original(self, *args, **kwargs)

    keras.Model.fit = fit


def _decides() -> bool:
    folder, cluster = os.environ.get("TFSTEPS_LOG_DIR", ""), json.loads(os.environ.get("TF_CONFIG", "{}"))
    decisive = "chief" if "chief" in cluster.get("cluster", {}) else "worker"
    here = os.environ.get("TFSTEPS_ROLE"), os.environ.get("TFSTEPS_INDEX")
    return here == (decisive, "0") and "://" not in folder


class _HistoryRecorder:
    """Adds a callback to each `fit`, and writes what the callbacks see."""

    def __init__(self, keras: Any, folder: str) -> None:
        self._keras, self._folder = keras, folder
        self._models: Any = weakref.WeakKeyDictionary()  # of each model: its folder, and its last step
        self._count = 0

    def add_to(self, arguments: dict[str, Any], model: Any) -> bool:
        """Add the callback to the arguments of `fit`, unless one of them writes such curves below the same folder."""
        callbacks = arguments.get("callbacks")
        if callbacks is not None and not isinstance(callbacks, (list, tuple)):
            if hasattr(callbacks, "callbacks"):  # a CallbackList
                return False
            callbacks = [callbacks]
        callback_list = list(callbacks or ())
        if any(self._writes_below(callback) for callback in callback_list):
            return False
        if model not in self._models:
            if self._count >= _MOST_MODELS:
                return False
            self._count += 1
            self._models[model] = f"model-{self._count}/" if self._count > 1 else "", [-1]
        prefix, last = self._models[model]
        arguments["callbacks"] = [*callback_list, self._callback(prefix, last)]
        return True

    def _writes_below(self, callback: Any) -> bool:
        """Return whether a callback is one of TensorBoard, and writes below the folder, or where is not known."""
        if all(base.__name__ != "TensorBoard" for base in type(callback).__mro__):
            return False
        try:
            folders = [os.path.realpath(os.fspath(folder)) for folder in (self._folder, callback.log_dir)]
            return os.path.commonpath(folders) == folders[0]
        except Exception:  # noqa: BLE001
            return True

    def _callback(self, prefix: str, last: list[int]) -> Any:
        offset: list[int] = []

        def on_epoch_end(_self: Any, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
            try:
                if not offset:  # a second `fit` of a model goes on where the first one ended
                    offset.append(max(last[0] + 1 - epoch, 0))
                last[0] = epoch + offset[0]
                self._write(prefix, last[0], logs or {})
            except Exception:  # noqa: BLE001, S110  a full disk costs the curves, not the training
                pass

        members = {"on_epoch_end": on_epoch_end}
        return type("TfstepsHistory", (self._keras.callbacks.Callback,), members)()

    def _write(self, prefix: str, step: int, logs: Mapping[str, Any]) -> None:
        runs: dict[str, list[tuple[str, float]]] = {"train": [], "validation": []}
        for name, value in logs.items():
            run, name = ("validation", name[4:]) if name.startswith("val_") else ("train", name)  # noqa: PLW2901
            runs[run].append((f"epoch_{name}", float(value)))
        for run, values in runs.items():
            if values:
                _append(os.path.join(self._folder, prefix + run), step, values)  # noqa: PTH118


@functools.cache
def _file(folder: str) -> str:
    """Create an event file in a folder, and return its path."""
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    path = f"{folder}/events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.tfsteps"
    with open(path, "ab") as file:  # noqa: PTH123
        file.write(_record(struct.pack("<Bd", 9, time.time()) + _field(3, b"brain.Event:2")))
    return path


def _append(folder: str, step: int, values: Iterable[tuple[str, float]]) -> None:
    event = struct.pack("<Bd", 9, time.time()) + b"\x10" + _number(step)
    scalars = (_field(1, _field(1, tag.encode()) + struct.pack("<Bf", 0x15, value)) for tag, value in values)
    with open(_file(folder), "ab") as file:  # noqa: PTH123
        file.write(_record(event + _field(5, b"".join(scalars))))


def _field(number: int, data: bytes) -> bytes:
    """Return a length-delimited field of a protocol buffer."""
    return bytes([number << 3 | 2]) + _number(len(data)) + data


def _number(value: int) -> bytes:
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def _record(data: bytes) -> bytes:
    """Return a record of an event file: the length and the data, each with its checksum."""
    length = struct.pack("<Q", len(data))
    return length + _checksum(length) + data + _checksum(data)


def _checksum(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF)
