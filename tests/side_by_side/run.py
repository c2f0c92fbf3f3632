"""A run: which suites run at once, and what a signal does."""

import signal
import time

from tests.side_by_side.suites import Suite

_PROGRESS_SECONDS = 30.0
_STOP_SECONDS = 60.0  # for fixtures that remove what they made


class Run:
    """All suites of a run."""

    def __init__(self, together: list[Suite], alone: list[Suite], cores: float) -> None:
        # Those that wait for a cluster fill the time of all others. Without one, the first answers come first.
        cluster = any(suite.cluster and suite.measured_as == suite.name for suite in together)
        self._waiting = sorted(together, key=lambda suite: suite.rank if cluster else (0, suite.seconds))
        self._alone = list(alone)
        self._cores = cores
        self._signals: list[str] = []
        self._began = self._said = time.monotonic()
        self.running: list[Suite] = []
        self.done: list[Suite] = []
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _frame: self._signals.append(signal.Signals(number).name))

    def add(self, alone: list[Suite]) -> None:
        """Add suites that run alone, one after another, when all others have ended."""
        self._alone += alone

    @property
    def expected_seconds(self) -> float:
        """How long it takes if each suite takes what it is expected to."""
        at_once = sum(suite.seconds * suite.cores for suite in self._waiting) / self._cores
        longest = max((suite.seconds for suite in self._waiting), default=0)
        return max(at_once, longest) + sum(suite.seconds for suite in self._alone)

    def to_end(self) -> bool:
        """Run all. False if a signal came, after which all have ended, too."""
        while (self._waiting or self._alone or self.running) and not self._signals:
            self._start()
            time.sleep(0.2)  # twenty looks a second took 22 s of CPU in a run of an hour
            for suite in [item for item in self.running if item.ended()]:
                self.running.remove(suite)
                self.done.append(suite)
                self.say(f"{suite.name} {suite.outcome} after {suite.took:.0f} s")
            if time.monotonic() - self._said >= _PROGRESS_SECONDS:
                self._said = time.monotonic()
                self.say(self._progress())
        if self._signals:
            self._stop()
        return not self._signals

    def _start(self) -> None:
        """Start the suites that find room, by rank; when all have ended, those that want to be alone."""
        if not self._waiting and not self.running and self._alone:
            suite = self._alone.pop(0)
            suite.start()
            self.running.append(suite)
            return
        for suite in list(self._waiting):
            busy = sum(item.cores for item in self.running)
            if self._may_start(suite) and (not self.running or busy + suite.cores <= self._cores):
                self._waiting.remove(suite)
                suite.start()
                self.running.append(suite)

    def _may_start(self, suite: Suite) -> bool:
        others = [*self.running, *(item for item in self._waiting if not item.disruptive)]
        return not suite.disruptive or not any(other.cluster for other in others)

    def _stop(self) -> None:
        """End all that run: pytest cleans up for a minute; a second signal, or what is left then, is killed."""
        self.say(f"{self._signals[0]}: ending {', '.join(suite.name for suite in self.running) or 'nothing'}")
        limit = time.monotonic() + _STOP_SECONDS
        for suite in self.running:
            suite.stop(signal.SIGINT)
        while self._any_runs() and time.monotonic() < limit and len(self._signals) == 1:
            time.sleep(0.05)
        for suite in self.running:
            suite.stop(signal.SIGKILL)
        while self._any_runs():
            time.sleep(0.01)

    def _any_runs(self) -> bool:
        return bool([suite for suite in self.running if not suite.ended()])  # each is asked

    def _progress(self) -> str:
        failed = sum(suite.failed for suite in self.done)
        waits = len(self._waiting) + len(self._alone)
        counts = f"{len(self.done)} done, {failed} of them failed; {waits} to come"
        return f"{', '.join(suite.progress() for suite in self.running)}; {counts}"

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        print(f"{time.monotonic() - self._began:6.0f} s  {text}", flush=True)
