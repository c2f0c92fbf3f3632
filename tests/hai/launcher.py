"""A launcher for one attempt that is given, as an engine gives it: `launcher.py JOB RUN TASK ATTEMPT`."""

import sys

from tests.conformance.launcher import launched
from tfsteps.platforms import hai
from tfsteps.runs.identity import Identity


def main(file: str, run: str, task: str, attempt: str) -> int:
    return launched(file, Identity(run=run, task=task, attempt=int(attempt)), hai.system)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
