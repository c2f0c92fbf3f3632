"""The job that a command or a call is about, from a file, plain data or a command line, and its check for a system."""

import os
import pathlib
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfsteps import spec
from tfsteps.console.errors import CommandError
from tfsteps.console.inputs import read_text
from tfsteps.engines.registry import find_pipeline
from tfsteps.spec import SpecError, TrainingJob
from tfsteps.spec.overrides import parse_override
from tfsteps.systems import registry
from tfsteps.systems.base import HasSettings, System
from tfsteps.systems.features import FEATURES

COMMAND_LINE = "command line"
_INTERPRETER = re.compile(r"(python|sh|bash)[0-9.]*")


class JobInput(msgspec.Struct, frozen=True):
    """A job before its system is known.

    Attributes:
        job: The job.
        source: Where it comes from, for messages: `job.yaml`.
        base_dir: Folder that relative paths of the job start from.
        origins: What has set fields that are not from a file, by their paths.
    """

    job: TrainingJob
    source: str
    base_dir: pathlib.Path
    origins: Mapping[spec.Path, str] = {}

    def origin(self, path: spec.Path) -> str:
        """Return what has set the field at `path`; empty = the file."""
        parents = (path[:length] for length in range(len(path), 0, -1))
        return next((self.origins[parent] for parent in parents if parent in self.origins), "")


class JobOptions(msgspec.Struct, frozen=True):
    """The options that describe a job without a file; None or False = not used.

    Attributes:
        workers: Number of workers.
        ps: Number of parameter servers.
        chief: Whether there is a chief.
        name: The job's name.
        image: Container image of every role.
        code: Folder with the files of the program.
        code_bucket: The URL of a folder of a bucket that these files reach the replicas by.
    """

    workers: int | None = None
    ps: int | None = None
    chief: bool = False
    name: str | None = None
    image: str | None = None
    code: str | None = None
    code_bucket: str | None = None

    @property
    def used(self) -> list[str]:
        """The options that the user wrote."""
        return [_option(name) for name, value in msgspec.structs.asdict(self).items() if value not in (None, False)]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def read_file(file: str, overrides: Sequence[str] = ()) -> JobInput:
    """Return the job in `file`, `-` for standard input, with fields replaced by `overrides`.

    Raises:
        SpecError: It is wrong.
        CommandError: It cannot be read.
    """
    try:
        if file == "-":
            job = spec.parse(read_text("-", "a job file"), "stdin", registry.options(), overrides)
            return JobInput(job, "stdin", pathlib.Path.cwd(), set_by(overrides))
        job = spec.load(file, registry.options(), overrides)
    except FileNotFoundError as error:
        raise CommandError(f"job file {file!r} does not exist; `tfsteps init` writes one to start from") from error
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"job file {file!r} cannot be read: {error}; give the path of a YAML or JSON file"
        ) from error
    return JobInput(job, file, pathlib.Path(file).absolute().parent, set_by(overrides))


def read_command(command: Sequence[str], options: JobOptions, overrides: Sequence[str] = ()) -> JobInput:
    """Return the job that runs `command` in every replica, with fields replaced by `overrides`.

    Raises:
        SpecError: It is wrong.
        CommandError: It has parameter servers, no chief, and no strategy that needs none.
    """
    if options.ps and not (options.chief or any(text.startswith(("roles.chief", "strategy=")) for text in overrides)):
        raise CommandError(
            f"--ps {options.ps}: TensorFlow 2's parameter servers hang without a chief; add --chief, or --set "
            "strategy=between_graph if the program uses TensorFlow 1's graph mode"
        )
    roles: dict[str, Any] = {}
    if options.chief:
        roles["chief"] = {}
    if options.workers is not None or not options.chief:
        roles["worker"] = {} if options.workers is None else {"replicas": options.workers}
    if options.ps is not None:
        roles["ps"] = {"replicas": options.ps}
    plain: dict[str, Any] = {"name": _name(command) if options.name is None else options.name}
    if options.image is not None:
        plain["image"] = options.image
    if options.code_bucket is not None and options.code is None:
        raise CommandError(
            f"--code-bucket {options.code_bucket} says how the files of --code reach the replicas; add --code FOLDER"
        )
    if options.code is not None:
        bucket = {} if options.code_bucket is None else {"bucket": options.code_bucket}
        plain["code"] = {"folder": options.code, **bucket} if bucket else options.code
    plain |= {"command": list(command), "roles": roles}
    origins: dict[spec.Path, str] = {
        ("command",): "--",
        ("name",): "--name",
        ("image",): "--image",
        ("code",): "--code",
        ("code", "bucket"): "--code-bucket",
    }
    origins |= {("roles", role, "image"): "--image" for role in roles}
    origins |= {("roles", "worker", "replicas"): "--workers", ("roles", "ps"): "--ps"}
    job = spec.from_plain(plain, COMMAND_LINE, registry.options(), overrides, origins)
    return JobInput(job, COMMAND_LINE, pathlib.Path.cwd(), {**origins, **set_by(overrides)})


def read(file: str | None, command: Sequence[str] | None, options: JobOptions, overrides: Sequence[str]) -> JobInput:
    """Return the job of a command line that has a file or, after `--`, a command.

    Raises:
        SpecError: The job is wrong.
        CommandError: There are both or neither, or options that go with the other one.
    """
    if file is not None and command is not None:
        raise CommandError(f"job file {file!r} and a command after `--` cannot both be run; leave one out")
    if command is not None:
        if not command:
            raise CommandError("there is no command after `--`; write one, such as `-- python train.py`")
        if command[0].endswith(".py") and not options.image and not shutil.which(command[0]):  # an image may have it
            line = shlex.join(["tfsteps", "run", *_written(options), "--", "python", *command])
            raise CommandError(f"{command[0]} is a program, not a command; write `{line}`")
        return read_command(command, options, overrides)
    if file is None:
        raise CommandError("give a job file, or a command after `--`: `tfsteps run --workers 2 -- python train.py`")
    if words := split_command([file])[1]:
        line = shlex.join(["tfsteps", "run", *_written(options), "--", *words])
        raise CommandError(f"{file} is a program, not a job file; write `{line}`")
    if used := options.used:
        field = {"--workers": "roles.worker.replicas=2", "--ps": "roles.ps.replicas=1", "--chief": "roles.chief={}"}
        write = field.get(used[0], f"{used[0].removeprefix('--')}=...")
        raise CommandError(f"{used[0]} is for a command after `--`; with a job file, write --set {write}")
    return read_file(file, overrides)


def _written(options: JobOptions) -> list[str]:
    """Return the options as a command line has them."""
    used = ((_option(name), value) for name, value in msgspec.structs.asdict(options).items())
    return [
        word
        for name, value in used
        if value not in (None, False)
        for word in ([name] if value is True else [name, str(value)])
    ]


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return options, and the command that a user probably meant by arguments without `--`; empty = there is none."""
    for position, word in enumerate(arguments):
        interpreter = {".py": ["python"], ".sh": ["sh"]}.get(pathlib.PurePath(word).suffix, [])
        if "=" not in word and (interpreter or _INTERPRETER.fullmatch(pathlib.PurePath(word).name)):
            return [*arguments[:position]], [*interpreter, *arguments[position:]]
    return [*arguments], []


def set_by(overrides: Sequence[str]) -> dict[spec.Path, str]:
    """Return the names of valid overrides in messages, by the paths that they set."""
    return {override.path: override.source for override in map(parse_override, overrides)}


def _name(command: Sequence[str]) -> str:
    """Return a name for a job that runs a command: that of its program, `train` for `python -u train.py`."""
    words = [word for word in command if not word.startswith("-")]
    interpreted = _INTERPRETER.fullmatch(pathlib.PurePath(command[0]).name)
    program = words[1] if interpreted and len(words) > 1 and "-c" not in command else command[0]
    return name_of(pathlib.PurePath(program).stem) or "job"


def name_of(text: str) -> str:
    """Return a name for a job made of a text, such as a file's name; empty = it has no character for one."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).lstrip("-0123456789")[:40].rstrip("-")


def find_system(name: str, **where: str) -> System:
    """Return the job system called `name`, on the cluster that `where` says. CommandError for an unknown one."""
    if not registry.exists(name):
        raise CommandError(f"job system {name!r} is unknown: use one of {', '.join(registry.plugins())}")
    return registry.get(name, find_pipeline, **where)


def check(job_input: JobInput, system: System, job: TrainingJob | None = None) -> None:
    """Raise SpecError for a job that cannot run on `system`; `job` = what it was changed to, None = it was not."""
    if problems := system.spec_problems(job or job_input.job):
        named = [msgspec.structs.replace(problem, source=job_input.origin(problem.path)) for problem in problems]
        raise SpecError(named, job_input.source)


def with_settings(system: System, job: TrainingJob, *, dry_run: bool) -> TrainingJob:
    """Return the job with the platform's settings; those of a cluster are not applied if it may not be asked."""
    if not isinstance(system, HasSettings):
        return job
    from tfsteps.settings.find import VARIABLE  # noqa: PLC0415  local runs need no client of a cluster

    if dry_run and not os.environ.get(VARIABLE):
        if not FEATURES["personal"].uses(job):
            return job
        from tfsteps.settings.apply import apply  # noqa: PLC0415  most jobs need it not

        return apply(job, (), os.environ, "", registry.options()).job
    return system.with_settings(job, registry.options())
