"""docs/reference/job.md says what the types say."""

import pathlib
import re

from tests.golden import job_reference
from tfsteps.systems import registry

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def test_job_reference(golden):
    examples = sorted((DOCS / "examples").iterdir())
    whole = (DOCS / "examples" / "mnist.yaml").read_text()
    golden(DOCS / "reference" / "job.md", job_reference.page(registry.options(), examples, whole))


def test_its_commands_exist():
    commands = re.findall(r"`tfsteps (\w+)", job_reference.INTRO)
    assert commands
    assert set(commands) <= set(re.findall(r"^## (\w+)", (DOCS / "reference" / "cli.md").read_text(), re.MULTILINE))
