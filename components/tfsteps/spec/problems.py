"""The problems of a job file, each with its place and its fix."""

import shlex
from typing import Any

import msgspec

Path = tuple[str | int, ...]
"""Keys and list positions from the top of the job to a field; empty for the job itself."""

_SHOWN = 60  # characters of a value in a message: enough to recognize it, too few to leak a file


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One problem.

    Attributes:
        path: Path of the field.
        wrong: The problem, as a phrase that follows the value: "is not a whole number".
        fix: What to do, as an imperative sentence without its full stop.
        allowed: Allowed values; empty if the phrase and the fix are sufficient.
        value: The value as written, shortened; empty if there is none.
        line: Line in the file, from 1; None without a file.
        meant: Path of the field that was probably intended instead of an unknown one; empty = none.
        source: What has set the field, such as `--set env.LR`; empty = the file.
    """

    path: Path
    wrong: str
    fix: str
    allowed: str = ""
    value: str = ""
    line: int | None = None
    meant: Path = ()
    source: str = ""

    def __str__(self) -> str:
        """Return the problem as one line that can be printed, without the file and line."""
        subject = f"{self.value} {self.wrong}" if self.value else self.wrong
        allowed = f" Allowed: {self.allowed}." if self.allowed else ""
        text = f"{dotted(self.path)}: {subject}.{allowed} {self.fix}."
        return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def problem(path: Path, wrong: str, fix: str, value: object = "", allowed: str = "") -> Problem:
    """Return a problem whose `value` is shown unchanged: for rules, which format their values."""
    return Problem(path=path, wrong=wrong, fix=fix, value=str(value), allowed=allowed)


class RefusedError(ValueError):
    """A value that is not allowed.

    Attributes:
        wrong: As in `Problem`.
        fix: As in `Problem`.
        allowed: As in `Problem`.
    """

    def __init__(self, wrong: str, fix: str, allowed: str = "") -> None:
        """Keep the three parts of the problem."""
        self.wrong, self.fix, self.allowed = wrong, fix, allowed
        super().__init__(wrong)


class FileKind(msgspec.Struct, frozen=True):
    """What a text should be: the words of the messages that refuse it as a whole.

    Attributes:
        name: What it describes: `job`, in "is not a job file".
        path: Path of the whole text in messages.
        start: What to do about an empty text.
        manifest: What to do about a manifest in its place. It may contain `{file}`, the name of the file.
    """

    name: str
    path: Path
    start: str
    manifest: str

    def manifest_problem(self, source: str, what: str = "a Kubernetes object") -> Problem:
        """Return the problem of something else in place of this; `source` is the name of the file."""
        file = {"stdin": "-", "job": "FILE"}.get(source, source)
        wrong = f"is {what}, not a {self.name} file"
        return Problem(path=self.path, wrong=wrong, fix=self.manifest.format(file=shlex.quote(file)))


JOB_FILE = FileKind(
    name="job",
    path=(),
    start="Start with `name:` and `roles:`; `tfsteps init` writes a file",
    manifest="Convert it: `tfsteps import {file} -o job.yaml`",
)


class SpecError(Exception):
    """A job description that cannot be used. Nothing was created.

    Attributes:
        problems: One or more problems, in the order of the file.
        source: Name of the file, or of another source.
    """

    def __init__(self, problems: list[Problem], source: str = "job") -> None:
        """Keep `problems`; the message lists them all, one a line."""
        self.problems = problems
        self.source = source
        super().__init__("\n".join(map(self._line, problems)))

    def _line(self, problem: Problem) -> str:
        source, text = problem.source or self.source, str(problem)
        if problem.line:
            return f"{source}:{problem.line}: {text}"
        if source in ("--set", f"--set {dotted(problem.path)}"):  # it names the field itself
            text = text.removeprefix(f"{dotted(problem.path)}: ")
        return f"{source}: {text}"


def dotted(path: Path) -> str:
    """Return `roles.worker.args[0]` for ("roles", "worker", "args", 0), `job` for the empty path."""
    text = ""
    for part in path:
        key = str(part)
        plain = key and key.isprintable() and len(key) <= _SHOWN  # else it is quoted, or shortened
        text += f"[{part}]" if isinstance(part, int) else f".{key if plain else shown(key)}"
    return text.removeprefix(".") or "job"


def shown(value: Any) -> str:
    """Return `value` for a message: text in quotes, collections by their kind, long text shortened."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case str():
            return repr(value if len(value) <= _SHOWN else value[: _SHOWN - 1] + "…")
        case int() if abs(value) >= 10**_SHOWN:  # Python refuses to write more than 4300 digits
            return f"a number of more than {_SHOWN} digits"
        case _:
            return str(value)[:_SHOWN]
