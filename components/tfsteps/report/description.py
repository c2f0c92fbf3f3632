"""The job description in a report."""

import pathlib
import re
from typing import Any

import msgspec
import yaml

from tfsteps.report.html import Html, tag
from tfsteps.spec import Strategy, TrainingJob, notation

_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE", re.IGNORECASE)
_LONGEST = 100_000


class Description(msgspec.Struct, frozen=True):
    """The content of job.json.

    Attributes:
        text: The job as YAML, its amounts in short notations such as `4Gi`; the unchanged text if it cannot be parsed;
            empty if the file is missing.
        name: The job's name; empty if the file cannot be parsed.
        strategy: The job's strategy; None if the file cannot be parsed.
        metrics: Tags of the metrics that the job names.
    """

    text: str = ""
    name: str = ""
    strategy: Strategy | None = None
    metrics: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: pathlib.Path) -> "Description":
        """Read the file at `path`, which may be missing or damaged."""
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return cls()
        try:
            job = msgspec.json.decode(raw, type=TrainingJob)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return cls(text=raw.decode(errors="replace"))
        text = yaml.safe_dump(_without_secrets(notation.to_plain(job)), sort_keys=False, allow_unicode=True, width=100)
        return cls(text, job.name, job.effective_strategy, tuple(job.outputs.metrics.values()))

    def shown(self) -> Html:
        """Return the description as a part of a page."""
        if not self.text:
            return tag("p", "job.json is missing.", class_="note")
        cut = tag("p", "Cut: see job.json.", class_="note") if len(self.text) > _LONGEST else None
        return tag(
            "div", tag("pre", self.text[:_LONGEST], tabindex=0, role="region", aria_label="Job description"), cut
        )


def read_inputs(path: pathlib.Path) -> dict[str, Any] | None:
    """Return the job in the file at `path` as plain data, without secrets; None if it is missing or damaged."""
    try:
        plain = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    shown: dict[str, Any] = _without_secrets(plain)
    return shown


def _without_secrets(value: Any, name: str = "") -> Any:
    """Return the description without values of variables whose names suggest a secret, because reports are shared."""
    if isinstance(value, dict):
        return {key: _without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return "***" if isinstance(value, str) and name.isupper() and _SECRET.search(name) else value
