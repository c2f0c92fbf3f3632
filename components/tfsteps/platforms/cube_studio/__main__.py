"""The program of cube-studio's job template: runs one job, as the `train` step does."""

from collections.abc import Sequence

from tfsteps.platforms.cube_studio.task import CubeStudioTask
from tfsteps.steps.train import launcher
from tfsteps.text import streams


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job of a task of cube-studio and return the exit code; None = the arguments of this process."""
    return launcher.main(argv, CubeStudioTask)


if __name__ == "__main__":
    streams.flush_and_exit(main())
