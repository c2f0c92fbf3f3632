"""The inputs of a job as plain values by name, without secrets: for comparisons, and for places that people see."""

import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tfsteps import typed_json
from tfsteps.json_errors import NOT_READABLE
from tfsteps.masking import masked_job

_WORDS = ("command", "args")
_OPTION = re.compile(r"--?[a-zA-Z]")


def read_inputs(job: pathlib.Path | bytes) -> dict[str, Any] | None:
    """Return a job, or that in a file, as plain data without secrets; None if it is missing or damaged."""
    try:
        plain = typed_json.decode(job if isinstance(job, bytes) else job.read_bytes(), dict[str, Any])
    except (OSError, *NOT_READABLE):
        return None
    shown: dict[str, Any] = masked_job(plain)
    return shown


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each single value below `value` with its dotted path: `roles.worker.env."a.b"`.

    Options of a command line have their names, `args --lr`, and its other words their places, `args.0`.
    """
    if path.rpartition(".")[2] in _WORDS and isinstance(value, list):
        yield from _words(value, path)
        return
    if isinstance(value, dict):
        items = [(f'"{key}"' if "." in key else key, item) for key, item in value.items()]
    elif isinstance(value, list):
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        yield path, value
        return
    for key, item in items:
        yield from flatten(item, f"{path}.{key}" if path else key)


def _words(words: Sequence[Any], path: str) -> Iterator[tuple[str, Any]]:
    """Yield the options of a command line by name, those that are repeated as a list, and its other words by place."""
    options: dict[str, list[Any]] = {}
    waiting = ""  # the option whose value may come next
    for place, word in enumerate(words):
        if isinstance(word, str) and _OPTION.match(word):
            waiting, equals, value = word.partition("=")
            options.setdefault(waiting, []).append(value if equals else True)
            waiting = "" if equals else waiting
        elif waiting:
            options[waiting][-1], waiting = word, ""
        else:
            yield f"{path}.{place}", word
    for name, values in options.items():
        yield f"{path} {name}", values[0] if len(values) == 1 else values
