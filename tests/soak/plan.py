"""What a soak does, by its seed alone: jobs, their programs, and what happens to their launchers. Pure."""

import random
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

TOTAL_SECONDS = 120.0
"""`deadlines.total` of each job."""
TENSORBOARD = {"idle": 20.0, "keep_for": 60.0}
"""The life of each TensorBoard, in seconds."""
KEPT_SECONDS = 86400.0
"""`keep_for` of the jobs that must be there at the end."""
WITH_TENSORBOARD = ("kubeflow", "jobset", "trainjob", "jobs")
"""The systems whose TensorBoards tfsteps starts itself."""

Program = Literal["succeeds", "fails", "hangs"]
Disturbance = Literal["", "KILL", "KILL and adopt", "TERM", "shut down"]

SCRIPT = """
import os, sys, time
sys.path.insert(0, "/opt/standin/support")
from event_writer import ScalarWriter
if os.environ["TFSTEPS_INDEX"] == "0" and {event_files}:
    with ScalarWriter(os.environ["TFSTEPS_LOG_DIR"]) as writer:
        writer.scalar("loss", 0.5, 1)
for second in range({seconds}):
    print("second", second, flush=True)
    time.sleep(1)
sys.exit({code} if os.environ["TFSTEPS_INDEX"] == "0" else 0)
"""
CODES = {"succeeds": 0, "fails": 3, "hangs": 0}


class PlannedJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job of the plan.

    Attributes:
        run: The id of its run.
        system: The job system.
        step: Launched by a step of a Workflow; else by the `tfsteps` command.
        program: How the program ends. One that hangs is ended by the deadline.
        seconds: How long it runs.
        workers: The number of its replicas; worker 0 decides.
        tensorboard: It has a TensorBoard.
        on_end: Of the job file; empty = not set.
        keep_for: Of the job file, in seconds; None = not set.
        disturbance: What happens to the launcher.
        after: Seconds from the launcher's start to that.
        ends_workflow: How its Workflow ends after the launcher.
    """

    run: str
    system: str
    step: bool
    program: Program
    seconds: int
    workers: int
    tensorboard: bool
    on_end: str
    keep_for: float | None
    disturbance: Disturbance
    after: float
    ends_workflow: Literal["deleted", "shut down"]

    def job(self, image: str, tensorboard_image: str) -> dict[str, Any]:
        """Return the job file."""
        script = SCRIPT.format(seconds=self.seconds, code=CODES[self.program], event_files=self.tensorboard)
        fields: dict[str, Any] = {
            "name": "soak",
            "image": image,
            "command": ["python", "-c", script],
            "roles": {"worker": {"replicas": self.workers}},
            "restart": "never",
            "deadlines": {"total": f"{TOTAL_SECONDS:.0f}s"},
            "resources": {"cpu": "20m", "memory": "32Mi"},
        }
        if self.tensorboard:
            life = {name: f"{seconds:.0f}s" for name, seconds in TENSORBOARD.items()}
            fields |= {
                "volumes": [{"pvc": "training", "mount": "/data"}],
                "output_dir": "/data/runs/{run_id}/{task}",
                "tensorboard": {"image": tensorboard_image, **life},
            }
        if self.on_end:
            fields["on_end"] = self.on_end
        if self.keep_for is not None:
            fields["keep_for"] = f"{self.keep_for:.0f}s"
        return fields


def plan(seed: int, jobs: int, systems: Sequence[str]) -> list[PlannedJob]:
    """Return the jobs in the order of their start: the same for the same arguments; all systems in turn."""
    dice = random.Random(seed)
    return [_job(dice, f"soak-{seed}-{number}", systems[number % len(systems)]) for number in range(jobs)]


def _job(dice: random.Random, run: str, system: str) -> PlannedJob:
    step = dice.random() < 0.4
    disturbances = {"": 45, "KILL": 15, "KILL and adopt": 20, "TERM": 15, "shut down": 5 if step else 0}
    program = _one(dice, {"succeeds": 60, "fails": 32, "hangs": 8})
    on_end = _one(dice, {"": 4, "keep": 2, "delete": 2, "delete_pods": 2})
    keep_for = _one(dice, {None: 4, 20.0: 2, 60.0: 2, KEPT_SECONDS: 2})
    return PlannedJob(
        run=run,
        system=system,
        step=step,
        program=program,
        seconds=600 if program == "hangs" else dice.randint(2, 25),
        workers=_one(dice, {1: 3, 2: 1}),
        tensorboard=_one(dice, {True: 1, False: 4}) and system in WITH_TENSORBOARD,
        on_end=on_end,
        keep_for=None if on_end == "delete" else keep_for,  # a job file may not have both
        disturbance=_one(dice, disturbances),
        after=round(dice.uniform(2, 25), 1),
        ends_workflow=_one(dice, {"deleted": 1, "shut down": 1}),
    )


def _one(dice: random.Random, weights: dict[Any, int]) -> Any:
    return dice.choices(list(weights), list(weights.values()))[0]
