"""The figures of a full soak, as a page."""

import argparse
import os
import pathlib
import platform
from collections import Counter
from collections.abc import Mapping, Sequence

from tests.soak.judge import JobRecord
from tests.support.markdown import entry, table, wrapped

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "operate" / "soak.md"
FULL_MINUTES, FULL_JOBS = 20, 200
_HEAD = """# Soak

<!-- Written by `make soak`. -->

`make soak` runs jobs of all systems on a real cluster for 20 minutes, by the `tfsteps` command and as steps of
Workflows. Meanwhile launchers are killed (SIGKILL) and stopped (SIGTERM), and some are adopted by another launcher;
Workflows are shut down and deleted; requests of launchers and of the janitor are reset, delayed, refused and cut; the
janitor is killed and restarted; TensorBoards become idle. Retention times are short: at the end only jobs with a
`keep_for` of a day may be there. A judge, which has recorded each object, then checks:

- No object is left of a job that is to be removed, and none without a run.
- No job was removed before its retention time, its deadline, or the end of its Workflow.
- Each launcher that was not killed has reported what its program did, by its exit code, and none hung.
- No run had more than one job object, unless `tfsteps run --adopt` came after the end of the first.
"""


def page(
    options: argparse.Namespace, jobs: Sequence[JobRecord], figures: Mapping[str, int], problems: Sequence[str]
) -> str:
    """Return the page of a soak."""
    text = "\n".join(entry(problem) for problem in problems) or "No problem was found."
    settings = (
        f"Seed {options.seed}, {options.minutes:g} minutes, {options.parallel} jobs at a time, on "
        f"{os.cpu_count()} cores with Python {platform.python_version()}."
    )
    tables = [
        ("what", "number", figures),
        ("job system", "jobs", Counter(f"`{job.plan.system}`" for job in jobs)),
        ("exit code of a launcher", "launchers", _codes(jobs)),
    ]
    counts = [
        table((what, unit), [(name, str(count)) for name, count in items.items()]) for what, unit, items in tables
    ]
    return "\n\n".join([f"{_HEAD}\n## Last full soak\n{wrapped(settings)}", text, *counts]) + "\n"


def _codes(jobs: Sequence[JobRecord]) -> Mapping[str, int]:
    codes = Counter(launch.code for job in jobs for launch in job.launches)
    return {_code(code): codes[code] for code in sorted(codes, key=lambda code: (code is None, code or 0))}


def _code(code: int | None) -> str:
    return "none" if code is None else f"{code}" if code >= 0 else f"signal {-code}"
