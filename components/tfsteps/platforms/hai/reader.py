"""Reads a command line of `hai-cli` that submits a task. Pure, but for the folder that it is typed in."""

import argparse
import pathlib
from collections.abc import Sequence
from typing import Any, NoReturn

from tfsteps.imports.draft import Draft, Imported
from tfsteps.imports.fields import NotUnderstoodError
from tfsteps.imports.metadata import job_name
from tfsteps.platforms.hai.schema import NAME

_PROGRAMS = {"python": ["python3", "-u"], "bash": ["bash"]}
_DEFAULT = "default"
_PRIORITY = 30  # of `hai-cli`
_OF_PUSH = ("--force", "--no_checksum", "--no_hfignore", "--no_zip", "--no_diff")
_OF_TERMINAL = ("-f", "--follow", "--no_inherit")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise NotUnderstoodError(f"hai-cli: {message}")


def read_hai_cli(words: Sequence[str], name: str) -> Imported:
    """Return the job of `[NAME=VALUE]... hai-cli python|bash FILE [ARGUMENT]... -- OPTION...`.

    Raises:
        NotUnderstoodError: It submits no task.
    """
    start = next(i for i, word in enumerate(words) if "=" not in word)
    variables, (program, *rest) = words[:start], words[start:]
    if "--" not in rest:
        raise NotUnderstoodError(f"{program} submits a task only with `-- -n NODES`; this line runs nothing on HAI")
    end = rest.index("--")
    kind, *call = rest[:end] or [""]
    if kind not in _PROGRAMS or not call:
        raise NotUnderstoodError(f"{program} {kind}: expected `{program} python FILE` or `{program} bash FILE`")
    options, left = _options().parse_known_args(rest[end + 1 :])
    draft = Draft()
    draft.fields["name"] = name or job_name(options.name or pathlib.PurePath(call[0]).name)
    draft.roles["worker"] = {} if options.nodes == 1 else {"replicas": options.nodes}
    draft.fields["command"] = [*_PROGRAMS[kind], call[0]]
    _read_rest(draft, call[1:], [*variables, *options.environments], options)
    for word in left:
        draft.note(f"{word}: a job file has no field for it")
    return Imported(f"{program} {kind} {call[0]}", NAME, draft.finished(), draft.comments, draft.notes)


def _options() -> _Parser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("-n", "--nodes", type=int, required=True)
    parser.add_argument("-p", "--priority", type=int)
    parser.add_argument("-g", "--group", default=_DEFAULT)
    parser.add_argument("-i", "--image", default=_DEFAULT)
    parser.add_argument("-e", "--environments", action="append", default=[])
    parser.add_argument("--name", default="")
    parser.add_argument("-ls", "--life_state", type=int, default=0)
    for flag in (*_OF_PUSH, *_OF_TERMINAL):
        parser.add_argument(flag, action="store_true")
    return parser


def _read_rest(draft: Draft, arguments: Sequence[str], variables: Sequence[str], options: argparse.Namespace) -> None:
    values: dict[str, Any] = {
        "image": options.image,
        "args": list(arguments),
        "env": dict(variable.split("=", 1) for variable in variables if "=" in variable),
        "queue": options.group,
    }
    draft.fields |= {field: value for field, value in values.items() if value and value != _DEFAULT}
    if options.image == _DEFAULT:
        draft.note("-i: hai-cli takes the image of the container that it is typed in; here it is HAI's default")
    reason = "the folder of this command: hai-cli takes the current one; every rank has to see it"
    draft.decide(("working_dir",), str(pathlib.Path.cwd()), reason)
    default = "" if options.priority is not None else "hai-cli's default; without it HAI chooses (AUTO)"
    draft.decide(("systems", NAME, "priority"), _PRIORITY if options.priority is None else options.priority, default)
    draft.option(NAME, "whole_life_state", options.life_state)
    draft.deadline(None)
