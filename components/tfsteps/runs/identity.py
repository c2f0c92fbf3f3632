"""The identity of a job: run, task and attempt, and the names and labels derived from them.

The same three values always give the same name, so a restarted launcher finds and adopts its job.
"""

import base64
import hashlib
import re
import secrets
from typing import Any

import msgspec

from tfsteps.spec.problems import Problem, SpecError, shown

PREFIX = "tfsteps.dev/"
RUN_ID, TASK, ATTEMPT = f"{PREFIX}run-id", f"{PREFIX}task", f"{PREFIX}attempt"
PIPELINE = f"{PREFIX}pipeline"
STEP = f"{PREFIX}step"
"""Label of the pods of steps of tfsteps: the component."""

CLUSTER = f"{PREFIX}cluster"
"""Label of the pods of steps whose job is on another cluster: its name."""

TRIGGER = f"{PREFIX}trigger"
"""Label of the Workflows that `tfsteps submit` creates, or its schedules: who started them."""
MANUAL, SCHEDULED = "manual", "scheduled"

MANAGED_BY = {"app.kubernetes.io/managed-by": "tfsteps"}
_HASH_LENGTH = 10  # base-32 characters: 50 bits, enough to avoid collisions within a namespace
_LABEL_LENGTH = 63
_STEM_LENGTH = 20


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at one task of one run.

    Attributes:
        run: The run: the pipeline run's id, the Workflow's uid, or the value of `--run-id`. Not empty.
        task: The task within the run, the same for all retries. Not empty.
        attempt: Number of the attempt, from 0; a retry after the job itself failed is a new attempt.
        pipeline: The pipeline's name; empty outside of pipelines.
    """

    run: str
    task: str
    attempt: int = 0
    pipeline: str = ""

    @classmethod
    def checked(cls, *, run: str, task: str, pipeline: str = "") -> "Identity":
        """Return an identity made of untrusted names. SpecError if a name is no text, or cannot be a part of a path."""
        for field, name in (("run_id", run), ("task", task)):
            if problem := name_problem(name):
                wrong, _, fix = problem.partition(": ")
                raise SpecError(
                    [Problem(path=(field,), value=shown(name), wrong=wrong, fix=fix.capitalize())], "inputs"
                )
        return cls(run=run, task=task, pipeline=pipeline)

    def job_name(self, stem: str, limit: int) -> str:
        """Return the job object's name: `stem` and a hash of run, task and attempt; `stem` is cut to fit `limit`."""
        room = limit - _HASH_LENGTH - 1
        return f"{stem[:room].rstrip('-')}-{short_hash(self.run, self.task, str(self.attempt))}"

    def names_of_attempts(self, job_name: str) -> dict[str, int]:
        """Return the attempt by its job's name, of this attempt, whose job is `job_name`, and of all earlier ones."""
        stem = self.stem(job_name)
        earlier = {f"{stem}-{short_hash(self.run, self.task, str(number))}": number for number in range(self.attempt)}
        return {**(earlier if stem else {}), job_name: self.attempt}

    @staticmethod
    def stem(job_name: str) -> str:
        """Return the stem that `job_name` was given, perhaps cut; empty = the name was not made by it."""
        match = re.fullmatch(rf"(.+)-[a-z2-7]{{{_HASH_LENGTH}}}", job_name)
        return match[1] if match else ""

    def selector(self) -> dict[str, str]:
        """Return the labels that select all attempts of the task, and nothing else."""
        return {**MANAGED_BY, RUN_ID: label_value(self.run), TASK: label_value(self.task)}

    def labels(self) -> dict[str, str]:
        """Return the labels of every object that belongs to this attempt."""
        labels = {**self.selector(), ATTEMPT: str(self.attempt)}
        return labels | ({PIPELINE: label_value(self.pipeline)} if self.pipeline else {})


def name_problem(name: object) -> str:
    """Return why `name` cannot be a run's id or a task's name, and how to correct it; empty = it can be used.

    Both names are parts of the output folder's path if `output_dir` contains them.
    """
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        return "cannot be used: write printable text"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "leads to another folder: write a name without `.`, `..` or empty parts between its slashes"
    return ""


def new_run_id(stem: str = "") -> str:
    """Return a random id for a run: `mnist-k7c2m9x4qp`, at most 31 lower-case letters, digits and hyphens.

    Args:
        stem: A name to begin with, such as the job's; it is cleaned, and cut to 20 characters. Empty = only the random
            part: ten base-32 characters, a letter first.
    """
    unique = secrets.choice("abcdefghijklmnop") + base64.b32encode(secrets.token_bytes(6)).decode().lower()[:9]
    readable = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:_STEM_LENGTH].rstrip("-")
    return f"{readable}-{unique}" if readable else unique


def task_run_id(mode: str, pipeline: str, task: str) -> str:
    """Return the id of the runs of one task of a pipeline by itself, always the same: `run-mnist-train`.

    At most 63 characters, as it is a label. If it had to be cleaned or cut, it ends with a hash of the whole.
    """
    return label_value(f"{mode}-{pipeline}-{task}")


def label_value(text: str) -> str:
    """Return `text` as a label value: unchanged if Kubernetes allows it, else cleaned, cut, and with a hash of it."""
    if len(text) <= _LABEL_LENGTH and re.fullmatch(r"[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?", text, re.ASCII):
        return text
    clean = re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[: _LABEL_LENGTH - _HASH_LENGTH - 1].strip("-_.")
    return f"{clean}-{short_hash(text)}".lstrip("-")


def spec_hash(rendered: Any) -> str:
    """Return a short hash of a rendered job; it tells a launcher whether an object of the same name is its own."""
    return hashlib.sha256(msgspec.json.encode(rendered, order="deterministic")).hexdigest()[:16]


def short_hash(*parts: str) -> str:
    """Return a hash of `parts`: ten base-32 characters."""
    raw = hashlib.sha256("\0".join(parts).encode()).digest()
    return base64.b32encode(raw).decode().lower()[:_HASH_LENGTH]
