"""The job description in a report, without secrets: reports are shared."""

import contextlib
import pathlib
from typing import Any

import msgspec
import yaml

from tfsteps import typed_json
from tfsteps.json_errors import NOT_READABLE
from tfsteps.masking import masked_job
from tfsteps.report.html import Html, tag
from tfsteps.spec import Strategy, TrainingJob
from tfsteps.spec.parse import to_plain

_LONGEST = 100_000


class Description(msgspec.Struct, frozen=True):
    """The content of job.json.

    Attributes:
        text: The job as YAML, its amounts in short notations such as `4Gi`; empty if the file is missing or damaged.
        name: The job's name; empty if the file cannot be parsed.
        strategy: The job's strategy; None if the file cannot be parsed.
        metrics: Tags of the metrics that the job names.
        problem: Why there is no text.
    """

    text: str = ""
    name: str = ""
    strategy: Strategy | None = None
    metrics: tuple[str, ...] = ()
    problem: str = ""

    @classmethod
    def read(cls, path: pathlib.Path) -> "Description":
        """Read the file at `path`, which may be missing or damaged."""
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return cls(problem="job.json is missing.")
        try:
            plain = typed_json.decode(raw, dict[str, Any])
        except NOT_READABLE:
            return cls(problem="job.json is damaged.")  # its text may hold secrets
        job = None
        with contextlib.suppress(*NOT_READABLE):  # of another version, perhaps
            job = typed_json.decode(raw, TrainingJob)
        masked = masked_job(to_plain(job) if job else plain)
        text = yaml.safe_dump(masked, sort_keys=False, allow_unicode=True, width=100)
        if job is None:
            return cls(text=text)
        return cls(text, job.name, job.effective_strategy, tuple(job.outputs.metrics.values()))

    def shown(self) -> Html:
        """Return the description as a part of a page."""
        if not self.text:
            return tag("p", self.problem, class_="note")
        cut = tag("p", "Cut: see job.json.", class_="note") if len(self.text) > _LONGEST else None
        return tag(
            "div", tag("pre", self.text[:_LONGEST], tabindex=0, role="region", aria_label="Job description"), cut
        )
