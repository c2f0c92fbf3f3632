"""What happens to a launcher and its job, without faults. The launchers' code is what is tested."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.unknown.environment import RUN, WORKFLOW, Environment

KUBERNETES = ("kubeflow", "jobset", "jobs")
ALL = (*KUBERNETES, "hai")


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    Attributes:
        play: Runs it.
        codes: The exit codes of its launchers, in the order of their start, without a fault;
            None = any.
        systems: Where it is played.
        actors: Whose requests meet faults; empty = all.
    """

    play: Callable[[Environment], Awaitable[None]]
    codes: tuple[int | None, ...]
    systems: tuple[str, ...] = ALL
    actors: tuple[str, ...] = ()

    @property
    def about(self):
        """What happens, in a sentence."""
        return self.play.__doc__


SCENARIOS: dict[str, Scenario] = {}


def _scenario(*codes, systems=ALL, actors=()):
    def add(play):
        SCENARIOS[play.__name__.strip("_").replace("_", " ")] = Scenario(play, codes, systems, actors)
        return play

    return add


# --- a launcher


@_scenario(0)
async def _succeed(w: Environment):
    """The job is created and followed, and succeeds."""
    first = w.train("first")
    await w.until(lambda: w.follows(first), first)
    w.end("succeeded")
    await w.ended(first)


@_scenario(10)
async def _fail(w: Environment):
    """The job is created and followed, and fails."""
    first = w.train("first")
    await w.until(lambda: w.follows(first), first)
    w.end("failed")
    await w.ended(first)


@_scenario(13, 0)
async def _evict(w: Environment):
    """The launcher's pod is evicted, and its successor follows the job to its end."""
    first = w.train("first", tries=True)
    await w.until(lambda: w.follows(first), first)
    w.take_away(first)
    await w.ended(first)
    second = w.train("second", tries=True)
    await w.until(lambda: w.follows(second), second)
    w.end("succeeded")
    await w.ended(second)


@_scenario(13, 0, actors=("first",))
async def _overlap(w: Environment):
    """The launcher's pod is evicted while its successor follows the job already."""
    first = w.train("first", tries=True)
    await w.until(lambda: w.follows(first), first)
    second = w.train("second", tries=True)
    await w.until(lambda: w.follows(second), second)
    w.take_away(first)
    await w.ended(first)
    w.end("succeeded")
    await w.ended(second)


@_scenario(13, systems=KUBERNETES)
async def _keep(w: Environment):
    """The launcher's pod is evicted, no pod follows, and the job is kept for a retry of the run."""
    first = w.train("first", job={"on_evicted": "30m"})
    await w.until(lambda: w.follows(first), first)
    w.take_away(first)
    await w.ended(first)


@_scenario(-9, 13, actors=("second",))
async def _adopt_and_evict(w: Environment):
    """The launcher is lost, and its successor is evicted before it follows the job."""
    first = w.train("first", tries=True)
    await w.until(lambda: w.follows(first), first)
    await w.kill(first)
    second = w.train("second", tries=True)
    await w.until(lambda: w.asked_for(second, w.looks), second)
    w.take_away(second)
    await w.ended(second)


@_scenario(12)
async def _withdraw(w: Environment):
    """The step alone gets SIGTERM while the job is being created."""
    first = w.train("first")
    await w.until(w.jobs.jobs, first)
    w.stop(first)
    await w.ended(first)


@_scenario(12)
async def _stop_step(w: Environment):
    """The step alone gets SIGTERM while it follows the job."""
    first = w.train("first")
    await w.until(lambda: w.follows(first), first)
    w.stop(first)
    await w.ended(first)


@_scenario(12)
async def _terminate(w: Environment):
    """A user terminates the Workflow."""
    first = w.train("first")
    await w.until(lambda: w.follows(first), first)
    w.terminate()
    await w.ended(first)


@_scenario(10, 0, actors=("second",))
async def _retry(w: Environment):
    """A launcher has reported that its job failed, and another attempt succeeds."""
    first = w.train("first")
    await w.until(lambda: w.follows(first), first)
    w.end("failed")
    await w.ended(first)
    second = w.train("second")
    await w.until(lambda: w.follows(second), second)
    w.end("succeeded")
    await w.ended(second)


@_scenario(10, -9, 0, actors=("third",))
async def _retry_and_adopt(w: Environment):
    """The second attempt's launcher is lost, and its successor follows that attempt's job."""
    first = w.train("first")
    await w.until(lambda: w.follows(first), first)
    w.end("failed")
    await w.ended(first)
    second = w.train("second")
    await w.until(lambda: w.follows(second), second)
    await w.kill(second)
    third = w.train("third")
    await w.until(lambda: w.follows(third), third)
    w.end("succeeded")
    await w.ended(third)


# --- without its launcher


async def _lost(w: Environment, actor, node, phase="Failed"):
    """Let a launcher be lost, and its node end."""
    lost = w.train(actor, node)
    await w.until(lambda: w.follows(lost), lost)
    await w.kill(lost)
    w.node(node, phase)


async def _clean_up(w: Environment, node, scope, asked):
    """Run a finalizer beside a sibling that runs."""
    await _lost(w, "lost", f"{WORKFLOW}.fit")
    sibling = w.train("sibling", f"{WORKFLOW}.sibling")
    await w.until(lambda: w.follows(sibling), sibling)
    w.asked |= asked
    auto = "hai" if w.hai else "auto"
    await w.ended(w.step("cleanup", "finalizer", node, scope=scope, system=auto))
    await w.kill(sibling)


@_scenario(-9, -9, 0, actors=("finalizer",))
async def _clean_up_in_a_dag(w: Environment):
    """A finalizer cleans up after a lost launcher, beside a sibling that runs."""
    await _clean_up(w, f"{WORKFLOW}.cleanup", "siblings", {f"{WORKFLOW}.fit"})


@_scenario(-9, -9, 0, actors=("finalizer",))
async def _clean_up_in_a_hook(w: Environment):
    """The same in a lifecycle hook of the step."""
    await _clean_up(w, f"{WORKFLOW}.fit.onExit", "siblings", {f"{WORKFLOW}.fit"})


@_scenario(-9, None, 0, actors=("finalizer",))
async def _clean_up_the_run(w: Environment):
    """A finalizer cleans up the whole run."""
    await _clean_up(w, f"{WORKFLOW}.cleanup", "run", {f"{WORKFLOW}.fit", f"{WORKFLOW}.sibling"})


@_scenario(-9, -9, -9, 0, actors=("janitor",))
async def _sweep(w: Environment):
    """The janitor looks at a healthy job, an abandoned one, and one that has ended."""
    await _lost(w, "lost", "old.fit")
    done = w.train("done", "old.done")
    await w.until(lambda: w.follows(done), done)
    await w.kill(done)
    w.end("succeeded", "old.done")
    w.cluster.patch("workflows", "old", {"status": {"phase": "Failed"}})
    healthy = w.train("healthy")
    await w.until(lambda: w.follows(healthy), healthy)
    w.unneeded |= {"old.fit", "old.done"}
    await w.ended(w.start("tfsteps.janitor.__main__", "janitor", ["--once"]))
    await w.kill(healthy)


@_scenario(12, 0, actors=("user",))
async def _stop(w: Environment):
    """`tfsteps stop` ends the job of a launcher that follows it."""
    first = w.train("first")
    await w.until(lambda: w.follows(first), first)
    w.asked |= {w.task(first)}
    place = "hai" if w.hai else "kubernetes"
    await w.ended(user := w.start("tfsteps.cli", "user", ["stop", RUN, "--on", place]))
    if user.code:
        await w.kill(first)
    await w.ended(first)
