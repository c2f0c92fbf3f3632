"""What becomes of a step's job when something happens to the step: each way of loss with each shape of a pipeline."""

import threading
import time
from dataclasses import dataclass, field

from kfp import dsl, kubernetes

from tests.argo.environment import BUSYBOX
from tests.kfp_backend.backend import Backend, phase
from tfsteps.kfp import cleanup, launch, train, train_and_finalize, wait
from tfsteps.systems.kubernetes.cleanup.retention import LAUNCHER

TRAINS = "echo up; trap 'exit 143' TERM; sleep 100 & wait"
FAILS_ONCE = '[ "$TFSTEPS_ATTEMPT" != 0 ] || exit 3; echo up'
STEP_SECONDS = 40  # of a step with a timeout, from when its pod was made
SHAPES = ("train", "launch + wait", "train_and_finalize", "loop", "ExitHandler")
_EARLY = ("deleted early", "evicted early")
LOSSES = (*_EARLY, "deleted", "evicted", "drained", "terminated", "timeout", "SIGKILL", "retried")

_COMPILES = threading.Lock()  # kfp knows one pipeline at a time


def pipeline(shape: str, script: str, timeout: int = 0):
    """Return a pipeline that trains in one busybox replica; None where `timeout` seconds cannot be set."""
    image = {"image": BUSYBOX, "image_pull_policy": "IfNotPresent"}
    spec = {"name": "job", **image, "command": ["sh", "-c", script], "roles": {"worker": {}}}
    if timeout and shape == "train_and_finalize":
        return None  # kfp-kubernetes sets options on single steps alone

    def limited(task):
        return kubernetes.set_timeout(task, seconds=timeout) if timeout else task

    @dsl.pipeline(name="loss")
    def loss_case():
        match shape:
            case "train":
                limited(train(spec=spec))
            case "launch + wait":
                limited(wait(job=launch(spec=spec).outputs["job"]))
            case "train_and_finalize":
                train_and_finalize(spec=spec)
            case "loop":
                with dsl.ParallelFor(["a", "b"]) as item:
                    limited(train(spec=spec, data=item))
            case "ExitHandler":
                with dsl.ExitHandler(cleanup()):
                    limited(train(spec=spec))

    return loss_case


def one_replica(name: str):
    """Return a pipeline of one busybox replica that runs for the seconds of its input."""
    spec = {"image": BUSYBOX, "image_pull_policy": "IfNotPresent", "roles": {"worker": {}}}

    @dsl.pipeline(name=name)
    def one_job(seconds: int = 5):
        train(name="fit", spec=spec, command=["sh", "-c"], args=[f"sleep {seconds}"])

    return one_job


@dataclass
class LossCase:
    """A run of one shape that one thing happens to; its `cell` of the table once it was carried out."""

    backend: Backend
    shape: str
    loss: str
    run: str = ""
    seen: set = field(default_factory=set)

    def cell(self) -> str:
        """Carry it out and say what became of the job and of the run."""
        script = FAILS_ONCE if self.loss == "retried" else TRAINS
        with _COMPILES:
            compiled = pipeline(self.shape, script, STEP_SECONDS if self.loss == "timeout" else 0)
        if compiled is None:
            return "cannot be set"
        self.run = self.backend.start(compiled, f"{self.shape}: {self.loss}")
        outcome = self._retried() if self.loss == "retried" else self._lost()
        return f"{outcome}; left running: {self.backend.running(self.run) or 'nothing'} [{self.run[:8]}]"

    def _lost(self) -> str:
        pod = self.backend.until(lambda: self.backend.launchers(self.run))[0]
        before = self.backend.jobs(self.run)
        node = self.backend.step(pod)
        name = next(name for name, job in before.items() if job["metadata"]["annotations"][LAUNCHER] == node)
        if not self.loss.endswith("early"):
            self.backend.until(lambda: self.backend.node(self.run, pod).get("phase") == "Running")
        phase_before = self.backend.node(self.run, pod).get("phase")
        began = time.time()
        self._act(pod)
        if self.loss == "timeout":
            began = self.backend.until(lambda: self._failing(pod))
        fate = self.backend.until(lambda: self._fate(name))
        took = time.time() - began
        state = self.backend.ended(self.run)
        over = time.time() - began
        uids = {job["metadata"]["uid"] for job in before.values()}
        after = self.backend.jobs(self.run).items()
        others = sorted(name for name, job in after if job["metadata"]["uid"] not in uids)
        again = f"; ANOTHER JOB: {', '.join(others)}" if others else ""
        return f"node {phase_before}: job {fate} after {took:.1f} s, run {state} after {over:.0f} s{again}"

    def _retried(self) -> str:
        first = self.backend.ended(self.run)
        jobs = set(self.backend.jobs(self.run))
        began = time.time()
        self.backend.retry(self.run)
        second = self.backend.ended(self.run)
        more = set(self.backend.jobs(self.run)) - jobs
        return f"{first}, then {second} after {time.time() - began:.0f} s with {len(more)} new job(s)"

    def _act(self, pod: str) -> None:
        match self.loss.removesuffix(" early"):
            case "deleted":
                self.backend.delete(pod)
            case "evicted":
                self.backend.evict(pod)
            case "drained":
                self.backend.drain(pod, self.run)
            case "terminated":
                self.backend.terminate(self.run)
            case "SIGKILL":
                self.backend.kill(pod)

    def _failing(self, pod: str) -> float:
        """Return the time once the timeout of a step has passed; 0 before."""
        return time.time() if self.backend.node(self.run, pod).get("phase") in {"Failed", "Error"} else 0.0

    def _fate(self, name: str) -> str:
        """Return what became of a job; empty = it goes on."""
        current = self.backend.jobs(self.run).get(name)
        if current is None or "deletionTimestamp" in current["metadata"]:
            return "deleted"
        return "" if phase(current) == "goes on" else phase(current)
