"""Attempts of jobs that were never run: real records, a real log and real event files, as a launcher leaves them."""

import math
import random

import msgspec

from tests.support.event_writer import ScalarWriter
from tests.support.locations import location_of
from tests.support.log_lines import log_line
from tfsteps import spec
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import FailureSummary, Incarnation, ReplicaStatus, Status, Transition
from tfsteps.runs.store import AttemptFolder

START = 1_750_000_000.0
MIB = 1 << 20


def attempt_of(job: str, state: State, **fields) -> tuple[AttemptFolder, Status]:
    """Return the attempt of a job and its status, neither written yet but for job.json."""
    described = spec.parse(job)
    identity = Identity(run="k7c2m9x4qp", task=described.name, attempt=0, pipeline="mnist-nightly")
    attempt = AttemptFolder.of(identity)
    attempt.claim().close()
    (attempt.folder / "job.json").write_bytes(msgspec.json.encode(described))
    role, index = described.decisive_replica
    status = Status(
        identity=identity,
        job=identity.job_name(described.name, 63),
        system="local",
        decisive_replica=f"{role}-{index}",
        state=state,
        created=START,
        output=str(attempt.output),
        logs=str(attempt.output / "logs"),
        model=str(attempt.output / "model"),
        replicas=[
            ReplicaStatus(role=name, index=i) for name, role in described.roles.items() for i in range(role.replicas)
        ],
        **location_of("local"),
        **fields,
    )
    return attempt, status


def ran(
    replica: ReplicaStatus, start: float, end: float | None, state: str, code: int | None = None, *why: str
) -> None:
    """Add one incarnation to a replica; times in seconds since the job's creation."""
    number = len(replica.incarnations)
    replica.state, replica.restarts = ReplicaState(state), number
    replica.incarnations.append(
        Incarnation(
            started=START + start,
            ended=None if end is None else START + end,
            state=ReplicaState(state),
            exit_code=code,
            reason="".join(why),
            place=f"pid {4711 + number} port {40100 + number}",
            cpu_seconds=None if end is None else (end - start) * 0.8,
            memory_bytes=None if end is None else 410 * MIB + number * MIB,
        )
    )


def changes(*steps: tuple[float, str], reason: str = "", message: str = "") -> list[Transition]:
    """Return the job's states, by seconds since its creation; reason and message are the last one's."""
    transitions = [Transition(at=START + at, state=State(state)) for at, state in steps]
    transitions[-1].reason, transitions[-1].message = reason, message
    return transitions


def log(attempt: AttemptFolder, *lines: tuple[float, str, bytes]) -> None:
    """Append (seconds since the creation, replica, text) to the log."""
    with attempt.log.open("ab") as file:
        file.writelines(log_line(START + at, replica, text) for at, replica, text in lines)


def train_log(attempt: AttemptFolder, replica: str, start: float, steps: int) -> None:
    """Append what a training program prints."""
    head = [b"Connected to 4 tasks", b"Epoch 1/3"]
    body = [f"\x1b[32mstep {i}\x1b[0m  loss {2 * math.exp(-i / 40):.4f}".encode() for i in range(steps)]
    log(attempt, *[(start + i * 0.2, replica, text) for i, text in enumerate(head + body)])


def curves(status: Status, points: int = 400) -> None:
    """Write the event files of a training with an evaluator."""
    rng = random.Random(7)
    with ScalarWriter(f"{status.logs}/train") as train, ScalarWriter(f"{status.logs}/eval") as evaluation:
        for step in range(points):
            loss = 2.2 * math.exp(-step / (points / 5)) + 0.08
            train.scalar("loss", loss + rng.gauss(0, 0.04), step, START + step)
            train.scalar("learning_rate", 1e-3 * 0.5 * (1 + math.cos(math.pi * step / points)), step, START + step)
            train.scalar("examples_per_second", 21_000 + rng.gauss(0, 900), step, START + step)
            if step % (points // 10) == points // 10 - 1:
                evaluation.scalar("loss", loss + 0.06, step, START + step)
                evaluation.scalar("accuracy", 0.985 - 0.5 * math.exp(-step / (points / 4)), step, START + step)


JOB = """
name: mnist
image: ghcr.io/acme/mnist:1.4
command: [python, train.py]
args: [--epochs, "3"]
env: {BATCH: "64", HUB_TOKEN: hunter2}
roles: {chief: {}, worker: {replicas: 3, resources: {cpu: 2, memory: 4Gi}}, evaluator: {command: [python, evaluate.py]}}
restart: on_failure
outputs: {metrics: {loss: train/loss, accuracy: accuracy}}
"""


def succeeded() -> AttemptFolder:
    """Four replicas that train and an evaluator: all went well."""
    attempt, status = attempt_of(JOB, State.SUCCEEDED, started=START + 2.4, ended=START + 84.5)
    for place, replica in enumerate(status.replicas):
        ran(replica, 0.4 + place * 0.1, 83.9 + place * 0.05, "succeeded", 0)
        train_log(attempt, replica.name, 2 + place * 0.01, 300)
    ran_until_stopped = status.replicas[-1]
    ran_until_stopped.incarnations.clear()
    ran(ran_until_stopped, 1.1, 84.4, "stopped", 143)
    status.metrics = {"loss": 0.0934, "accuracy": 0.9758}
    status.tensorboard_url = "http://127.0.0.1:6006/"
    status.warnings = ["`image` has no effect here: replicas are processes of this machine."]
    status.transitions = changes((0, "pending"), (2.4, "running"), (84.5, "succeeded"))
    curves(status)
    attempt.write(status)
    return attempt


def failed() -> AttemptFolder:
    """Restarted twice together, then given up."""
    attempt, status = attempt_of(JOB, State.FAILED, started=START + 2.4, ended=START + 65.0)
    status.reason, status.message = "BackoffLimitExceeded", "worker-1 ended with exit code 1 after 2 of 2 restarts"
    for replica in status.replicas[:4]:
        guilty = replica.name == "worker-1"
        for start, end in ((0.5, 20.2), (20.9, 41.0), (43.0, 64.3)):
            ran(replica, start, end, "failed", 1, "" if guilty else "PeerLost")
        train_log(attempt, replica.name, 2, 120)
    ran(status.replicas[4], 0.7, 64.9, "stopped", 143)
    tail = [
        "Traceback (most recent call last):",
        '  File "train.py", line 41, in step',
        "    raise ValueError(f'batch {n} holds <nan>')",
        "ValueError: batch 311 holds <nan>",
    ]
    log(attempt, *[(64.0, "worker-1", line.encode()) for line in tail])
    status.failure = FailureSummary(
        summary="worker-1 failed with exit code 1 after 2 restarts: ValueError: batch 311 holds <nan> at train.py:41.",
        replica="worker-1",
        exit_code=1,
        meaning="the program raised an error",
        exception="ValueError: batch 311 holds <nan>",
        frame="train.py:41 in step",
        tail=tail,
    )
    status.transitions = changes(
        *[(0, "pending"), (2.4, "running"), (20.3, "restarting"), (22.0, "running"), (41.2, "restarting")],
        *[(44.1, "running"), (65, "failed")],
        reason=status.reason,
        message=status.message,
    )
    curves(status, 120)
    attempt.write(status)
    return attempt


def never_started() -> AttemptFolder:
    """Failed before any replica was there: no log, no event files."""
    job = "{name: mnist, command: [python, no.py], roles: {ps: {}, chief: {}, worker: {replicas: 2}}}"
    attempt, status = attempt_of(job, State.FAILED, ended=START + 0.2)
    status.reason, status.message = "StartFailed", "chief-0 could not be started: python: command not found."
    status.failure = FailureSummary(summary=status.message, replica="chief-0", fault="platform")
    status.transitions = changes((0, "pending"), (0.2, "failed"), reason=status.reason, message=status.message)
    attempt.write(status)
    return attempt


def many() -> AttemptFolder:
    """64 workers, one of them killed and started again."""
    job = (
        "{name: wide, command: [python, train.py], restart: on_failure, roles: {worker: {replicas: 64}, evaluator: {}}}"
    )
    attempt, status = attempt_of(job, State.RUNNING, started=START + 9.0)
    for place, replica in enumerate(status.replicas):
        if place == 17:
            ran(replica, 1, 80, "failed", 137, "OOMKilled")
        if place != 40:
            ran(replica, 82 if place == 17 else 1 + place * 0.1, None, "running")
        train_log(attempt, replica.name, 2, 250)
    status.transitions = changes((0, "queued"), (0.6, "pending"), (9, "running"), (80, "restarting"), (84, "running"))
    curves(status, 3000)
    attempt.write(status)
    return attempt


def served() -> AttemptFolder:
    """Parameter servers, and a job that somebody stopped."""
    roles = "{ps: {replicas: 2}, chief: {}, worker: {replicas: 3}, evaluator: {}}"
    job = f"{{name: ctr, command: [python, ps.py], roles: {roles}}}"
    attempt, status = attempt_of(job, State.CANCELLED, started=START + 3, ended=START + 30)
    for replica in status.replicas:
        ran(replica, 0.5, 29.8, "stopped", 143)
        train_log(attempt, replica.name, 2, 60)
    status.reason, status.message = "Stopped", "Somebody stopped it."
    status.transitions = changes((0, "pending"), (3, "running"), (30, "cancelled"), message=status.message)
    curves(status, 40)
    attempt.write(status)
    return attempt
