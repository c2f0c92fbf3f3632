"""Reads a task of HAI: its file, or a command line of `hai-cli`. Pure, but for the folder and environment of a line."""

import argparse
import os
import pathlib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tfsteps import yaml_reader
from tfsteps.platforms.hai.options import HaiOptions
from tfsteps.platforms.hai.schema import AUTO, NAME, PLAN
from tfsteps.spec.units import write_duration
from tfsteps.systems.manifest.draft import Draft, Imported
from tfsteps.systems.manifest.fields import Fields, NotUnderstoodError
from tfsteps.systems.manifest.pod import imported, job_name

_PRIORITY = 30  # of `hai-cli`
_DEFAULT = "default"
_OPTIONS = (
    *("mount_code", "py_venv", "timeout", "watchdog_time", "override_node_resource", "assigned_nodes"),
    *("shared_in_group", "whole_life_state", "record_git_revision", "sidecar", "profile"),
)
_IMAGE, _VENV, _VENV_OWNER = "MARSV2_TASK_BACKEND", "HF_ENV_NAME", "HF_ENV_OWNER"
_FLAGS = ("--force", "--no_checksum", "--no_hfignore", "--no_zip", "--no_diff", "-f", "--follow", "--detach")
_OF_PUSH = ("--list_timeout", "--sync_timeout", "--cloud_connect_timeout", "--token_expires", "--part_mb_size")
_NOT_QUOTED = re.compile(r"'[^']*'")
_SHELL = re.compile(r"[$`;&|<>()*?~#\n]")


def read_task(manifest: Fields, source: str, name: str, _version: str) -> Imported:
    """Return the job of a task's schema, version 2, as `hai-cli run` takes and `hai-cli describe` prints it.

    Raises:
        NotUnderstoodError: It is none, or one that tfsteps submitted.
    """
    draft = Draft()
    _read_task(draft, manifest, name)
    return imported(draft, manifest, source, NAME)


def _read_task(draft: Draft, task: Fields, name: str) -> None:
    spec, resource = task.inside("spec"), task.inside("resource")
    kind = task.take(str, "task_type") or "training"
    if kind != "training":
        raise NotUnderstoodError(f"task_type is {kind}: expected training; other tasks of HAI have no end")
    program = spec.take(str, "entrypoint")
    if not program:
        raise NotUnderstoodError(f"{spec.where('entrypoint')} is missing: expected the program of a task of HAI")
    if PLAN in spec.names("environments"):
        raise NotUnderstoodError("tfsteps submitted this task: `tfsteps rerun RUN` submits its job again")
    draft.fields["name"] = name or job_name(task.take(str, "name") or program)
    count = resource.count("node_count")
    draft.roles["worker"] = {} if count in (None, 1) else {"replicas": count}
    executable = spec.take(bool, "entrypoint_executable")
    runner = [] if executable else ["python3", "-u"] if program.endswith(".py") else ["bash"]
    _read_program(draft, [*runner, program], spec.take(str, "parameters") or "")
    values = {
        "image": resource.take(str, "image"),
        "queue": resource.take(str, "group"),
        "working_dir": spec.take(str, "workspace"),
        "env": _environments(draft, spec),
    }
    draft.fields |= {field: value for field, value in values.items() if value and value != _DEFAULT}
    priority = task.take(int, "priority")
    draft.option(NAME, "git_remote_repo", spec.take(str, "git_remote_repo"))
    draft.option(NAME, "git_target_revision", spec.take(str, "git_target_revision"))
    if priority not in (None, AUTO):
        draft.decide(("systems", NAME, "priority"), priority)
    draft.option(NAME, "spot", resource.take(bool, "is_spot"))
    for unlimited in ("gpu", "cpu", "memory"):
        if amount := resource.take(object, unlimited):
            draft.note(f"{resource.where(unlimited)} = {amount}: tfsteps takes whole nodes; see override_node_resource")
    _read_options(draft, task.inside("options"))
    draft.option(NAME, "services", task.take(list, "services"))
    draft.deadline(None)


def _read_program(draft: Draft, command: Sequence[str], parameters: str) -> None:
    """Set command and args; HAI passes the parameters to a shell, so what it would expand stays with one."""
    try:
        words = shlex.split(parameters)
    except ValueError as error:
        raise NotUnderstoodError(f"spec.parameters is not closed: {error}") from error
    if _SHELL.search(_NOT_QUOTED.sub("", parameters)):
        text = f"{shlex.join(command)} {parameters}"
        draft.decide(("command",), ["bash", "-c", text], "HAI's shell expands its parameters: so does this one")
    else:
        draft.fields["command"] = list(command)
        draft.fields |= {"args": words} if words else {}


def _environments(draft: Draft, spec: Fields) -> dict[str, str]:
    """Take the variables, whose values HAI writes as they are into a shell file: quotes are not part of them."""
    variables = {}
    for name, value in (spec.take(dict, "environments") or {}).items():
        text = str(value)
        try:
            words = shlex.split(text)
        except ValueError:
            words = []
        if _SHELL.search(_NOT_QUOTED.sub("", text)) or len(words) > 1 or bool(text) > bool(words):
            draft.note(
                f"{spec.where('environments', name)} = {text}: HAI's shell expands it, and a job file's is literal"
            )
        else:
            variables[name] = "".join(words)
    return variables


def _read_options(draft: Draft, options: Fields) -> None:
    for field in _OPTIONS:
        value = options.take(object, field)
        if value is None or value == getattr(HaiOptions(), field) or value in ({}, []):
            continue
        if field in ("timeout", "watchdog_time") and isinstance(value, int):
            value = write_duration(value)
        draft.decide(("systems", NAME, field), str(value) if field == "py_venv" else value)
    if tags := options.take(object, "tags"):
        draft.note(f"options.tags = {tags}: tfsteps writes those by which it finds the task; `labels` become some")


# --- command lines


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise NotUnderstoodError(f"hai-cli: {message}")


def read_hai_cli(words: Sequence[str], name: str) -> Imported:
    """Return the job of `[NAME=VALUE]... hai-cli python|bash|exec FILE [ARGUMENT]... -- OPTION...`.

    Raises:
        NotUnderstoodError: It submits no task.
    """
    start = next(i for i, word in enumerate(words) if "=" not in word)
    program, *rest = words[start:]
    if rest[:1] == ["run"]:
        raise NotUnderstoodError(f"{program} run takes a file: import it, `tfsteps import {[*rest, 'task.yml'][1]}`")
    if "--" not in rest:
        raise NotUnderstoodError(
            f"{program} submits a task only with `-- -n NODES`; this line runs nothing on HAI. "
            "`tfsteps run -- python FILE` runs a program on this machine"
        )
    end = rest.index("--")
    kind, *call = rest[:end] or [""]
    if kind not in ("python", "bash", "exec") or not call:
        raise NotUnderstoodError(f"{program} {kind}: expected `{program} python FILE`, `bash FILE` or `exec FILE`")
    options, left = _options().parse_known_args(rest[end + 1 :])
    draft = Draft()
    variables = dict(word.split("=", 1) for word in words[:start])
    task = Fields(_task(draft, kind, call, variables, options))
    _read_task(draft, task, name)
    draft.report(task)
    draft.comments["working_dir",] = (
        "the folder of this command: hai-cli takes the current one; every rank has to see it"
        if not pathlib.PurePath(call[0]).is_absolute()
        else "the program's folder; every rank has to see it"
    )
    if options.priority is None:
        draft.comments["systems", NAME, "priority"] = "hai-cli's default; without it HAI chooses (AUTO)"
    for word in left:
        draft.note(f"{word}: a job file has no field for it")
    return Imported(f"{program} {kind} {call[0]}", NAME, draft.finished(), draft.comments, draft.notes)


def _options() -> _Parser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("-n", "--nodes", type=int, required=True)
    parser.add_argument("-p", "--priority", type=int)
    parser.add_argument("-g", "--group", default=_DEFAULT)
    parser.add_argument("-i", "--image")
    parser.add_argument("-e", "--environments", action="append", default=[])
    parser.add_argument("--name", default="")
    parser.add_argument("--options", action="append", default=[])
    parser.add_argument("-ls", "--life_state")
    parser.add_argument("-ss", "--suspend_seconds")
    parser.add_argument("--no_inherit", action="store_true")
    for option in (*_OF_PUSH, "--proxy", "--input", "--output"):
        parser.add_argument(option)
    for flag in _FLAGS:
        parser.add_argument(flag, action="store_true")
    return parser


def _task(
    draft: Draft, kind: str, call: Sequence[str], variables: Mapping[str, str], options: argparse.Namespace
) -> dict[str, Any]:
    """Return the schema that `hai-cli` makes of a line, and note what it does not make of it."""
    shell = {**os.environ, **variables}
    for variable in variables.keys() - {_IMAGE, _VENV, _VENV_OWNER}:
        draft.note(f"{variable}: a variable of hai-cli itself, which the task does not get; `-e` sets one of the task")
    for option in ("life_state", "suspend_seconds"):
        if getattr(options, option) is not None:
            draft.note(f"--{option}: hai-cli reads it only to run the program on this machine, after `++`")
    for option in ("input", "output"):
        if artifact := getattr(options, option):
            draft.note(f"--{option} {artifact}: an artifact of HAI's own store, which tfsteps does not use")
    if not options.image and _IMAGE not in shell:
        draft.note("-i: hai-cli takes the image of the container that it is typed in; here it is HAI's default")
    path = pathlib.Path(call[0])
    extra: dict[str, Any] = {}
    if shell.get(_VENV) and not options.no_inherit:
        extra["py_venv"] = shell[_VENV] + (f"[{shell[_VENV_OWNER]}]" if shell.get(_VENV_OWNER) else "")
    for option in options.options:
        _set(extra, option)
    return {
        "name": options.name or path.name,
        "priority": _PRIORITY if options.priority is None else options.priority,
        "spec": {
            "workspace": str(path.parent if path.is_absolute() else pathlib.Path.cwd()),
            "entrypoint": path.name if path.is_absolute() else call[0],
            "entrypoint_executable": kind == "exec",
            "parameters": shlex.join(call[1:]),
            "environments": {
                name: shlex.quote(value) for name, _, value in (text.partition("=") for text in options.environments)
            },
        },
        "resource": {
            "image": options.image or shell.get(_IMAGE, _DEFAULT),
            "group": options.group,
            "node_count": options.nodes,
        },
        "options": extra,
    }


def _set(options: dict[str, Any], text: str) -> None:
    """Set one of a task's options by a value of `--options`: `NAME=VALUE`, the name with dots, the value YAML."""
    name, _, value = text.partition("=")
    *parents, last = name.strip().split(".")
    try:
        for parent in parents:
            options = options.setdefault(parent, {})
        [options[last]] = yaml_reader.documents(value)
    except (yaml_reader.YamlError, AttributeError, TypeError, ValueError) as error:
        raise NotUnderstoodError(f"--options {text}: expected NAME=VALUE, the value as YAML") from error
