"""The job description as a report shows it."""

import pathlib
import re
from typing import Any

import msgspec
import yaml

from tfsteps.report.html import Html, tag
from tfsteps.spec import Strategy, TrainingJob

_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE", re.IGNORECASE)
_LONGEST = 100_000


class Description(msgspec.Struct, frozen=True):
    """What job.json says.

    Attributes:
        text: As YAML; as it is where it cannot be read; empty if it is missing.
        name: The job's name; empty if it cannot be read.
        strategy: How the replicas work together; None if it cannot be read.
        metrics: Tags of the wanted metrics.
    """

    text: str = ""
    name: str = ""
    strategy: Strategy | None = None
    metrics: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: pathlib.Path) -> "Description":
        """Read the file at `path`, which may be missing or hold anything."""
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return cls()
        try:
            job = msgspec.json.decode(raw, type=TrainingJob)
            plain = msgspec.json.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return cls(text=raw.decode(errors="replace"))
        text = yaml.safe_dump(_without_secrets(plain), sort_keys=False, allow_unicode=True, width=100)
        return cls(text, job.name, job.effective_strategy, tuple(job.outputs.metrics.values()))

    def shown(self) -> Html:
        """Return the description as a part of a page."""
        if not self.text:
            return tag("p", "job.json is missing.", class_="note")
        cut = tag("p", "Cut: see job.json.", class_="note") if len(self.text) > _LONGEST else None
        return tag(
            "div", tag("pre", self.text[:_LONGEST], tabindex=0, role="region", aria_label="Job description"), cut
        )


def _without_secrets(value: Any, name: str = "") -> Any:
    """Return the description without the values of variables that sound secret: reports are passed on."""
    if isinstance(value, dict):
        return {key: _without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return "***" if isinstance(value, str) and name.isupper() and _SECRET.search(name) else value
