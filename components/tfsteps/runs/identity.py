"""Who a job belongs to: run, task and attempt, and the names and labels made of them.

The same three values always give the same name, so a launcher that is run again meets its own job.
"""

import base64
import hashlib
import re
import secrets

import msgspec

PREFIX = "tfsteps.dev/"
RUN_ID, TASK, ATTEMPT = f"{PREFIX}run-id", f"{PREFIX}task", f"{PREFIX}attempt"
MANAGED_BY = {"app.kubernetes.io/managed-by": "tfsteps"}
_HASH_LENGTH = 10  # base-32 characters: 50 bits, no collision among any number of jobs that one namespace can hold
_LABEL_LENGTH = 63


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at one task of one run.

    Attributes:
        run: The run: the pipeline run's id, the Workflow's uid, or what `--run-id` says. Not empty.
        task: The task within the run, the same over retries. Not empty.
        attempt: From 0; a retry after the job itself failed is a new one.
        pipeline: The pipeline's name; empty outside of pipelines.
    """

    run: str
    task: str
    attempt: int = 0
    pipeline: str = ""

    @classmethod
    def checked(cls, *, run: str, task: str, pipeline: str = "") -> "Identity":
        """Return an identity made of names from outside. ValueError for one that cannot be a part of a path."""
        for what, name in (("run id", run), ("task", task)):
            if problem := name_problem(name):
                raise ValueError(f"{what} {name!r} {problem}")
        return cls(run=run, task=task, pipeline=pipeline)

    def job_name(self, stem: str, limit: int) -> str:
        """Return the job object's name: `stem`, cut, and a hash of run, task and attempt, up to `limit` characters."""
        room = limit - _HASH_LENGTH - 1
        return f"{stem[:room].rstrip('-')}-{short_hash(self.run, self.task, str(self.attempt))}"

    def selector(self) -> dict[str, str]:
        """Return the labels that all attempts of the task have in common, and nothing else has."""
        return {**MANAGED_BY, RUN_ID: label_value(self.run), TASK: label_value(self.task)}

    def labels(self) -> dict[str, str]:
        """Return the labels that everything made for this attempt carries."""
        labels = {**self.selector(), ATTEMPT: str(self.attempt)}
        return labels | ({f"{PREFIX}pipeline": label_value(self.pipeline)} if self.pipeline else {})


def name_problem(name: str) -> str:
    """Return why `name` cannot be a run's id or a task's name, and what can; empty = it can.

    Both are parts of the output folder's path where `output_dir` has them.
    """
    if not name.strip() or not name.isprintable():
        return "cannot be used: give some printable text"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "leads to another folder: give a name without `.`, `..` or nothing between its slashes"
    return ""


def new_run_id() -> str:
    """Return an id for a run that has none: ten base-32 characters, a letter first."""
    return secrets.choice("abcdefghijklmnop") + base64.b32encode(secrets.token_bytes(6)).decode().lower()[:9]


def label_value(text: str) -> str:
    """Return `text` as a label value: itself where Kubernetes allows it, else cleaned, cut, and a hash of the whole."""
    if len(text) <= _LABEL_LENGTH and re.fullmatch(r"[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?", text, re.ASCII):
        return text
    clean = re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[: _LABEL_LENGTH - _HASH_LENGTH - 1].strip("-_.")
    return f"{clean}-{short_hash(text)}".lstrip("-")


def spec_hash(rendered: bytes) -> str:
    """Return a short hash of a rendered job, by which a launcher tells its own object from another one of that name."""
    return hashlib.sha256(rendered).hexdigest()[:16]


def short_hash(*parts: str) -> str:
    """Return ten base-32 characters that stand for `parts`."""
    raw = hashlib.sha256("\0".join(parts).encode()).digest()
    return base64.b32encode(raw).decode().lower()[:_HASH_LENGTH]
