"""Runs scenarios: without a fault, to learn their requests, and then once for each request and fault."""

import asyncio
import itertools
import multiprocessing
import pathlib
import tempfile
import time
from dataclasses import dataclass, field

from tests.unknown import launcher
from tests.unknown.environment import Certificate, Environment
from tests.unknown.faults import FAULTS
from tests.unknown.judge import problems
from tests.unknown.scenarios import SCENARIOS
from tests.unknown.server import Point

AT_ONCE = 12


@dataclass(frozen=True)
class Case:
    """One run of a scenario: on a system, with a fault at a request; no fault = the run that learns the requests."""

    scenario: str
    system: str
    point: Point | None = None
    fault: str = ""

    def __str__(self):
        harm = f" / {self.point} / {self.fault}" if self.point else ""
        return f"{self.scenario} / {self.system}{harm}"


@dataclass
class Result:
    """How a run ended: what is wrong, what was asked, and whether the fault's request came."""

    case: Case
    problems: list[str]
    points: list[Point]
    methods: dict[Point, str]
    met: bool
    seconds: float
    outputs: list[str] = field(default_factory=list)


class Runner:
    """Runs cases, some at once."""

    def __init__(self, at_once: int = AT_ONCE, mutant: str = "", say=lambda _result: None):
        self._mutant, self._say = mutant, say
        self._zygote = multiprocessing.get_context("forkserver")
        self._zygote.set_forkserver_preload(launcher.PRELOAD)
        self._room = asyncio.Semaphore(at_once)
        self._numbers = itertools.count()
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="unknown-"))
        self._certificate = Certificate(self._folder)

    async def case(self, case: Case) -> Result:
        """Run one case."""
        async with self._room:
            began = time.monotonic()
            fault = FAULTS[case.fault] if case.fault else None
            folder = self._folder / str(next(self._numbers))
            environment = Environment(
                case.system, self._zygote, self._certificate, folder, fault=fault, point=case.point, mutant=self._mutant
            )
            scenario = SCENARIOS[case.scenario]
            async with environment.open():
                await scenario.play(environment)
                wrong = problems(scenario, environment, transient=fault is None or fault.transient)
                outputs = [f"--- {item.actor}: {item.code}\n{item.output}" for item in environment.launchers]
            points = list(dict.fromkeys(request.point for request in environment.requests))
            methods = {request.point: request.method for request in environment.requests}
            met = any(server.met for server in environment.servers)
            result = Result(case, wrong, points, methods, met, time.monotonic() - began, outputs)
        self._say(result)
        return result

    async def scenario(self, scenario: str, system: str, choose=lambda _number, _case: True) -> list[Result]:
        """Run a scenario without a fault, and then all its cases that `choose` chooses."""
        first = await self.case(Case(scenario, system))
        if first.problems:
            return [first]
        cases = [
            Case(scenario, system, point, name)
            for point in first.points
            if point.actor in (SCENARIOS[scenario].actors or [point.actor])
            for name, fault in FAULTS.items()
            if not fault.changes or _changes(point, first.methods[point])
        ]
        chosen = [case for number, case in enumerate(cases) if choose(number, case)]
        return [first, *await asyncio.gather(*map(self.case, chosen))]


def _changes(point, method):
    """Tell whether a request changes something."""
    if point.kind.startswith("hai "):
        return "/operating/" in point.kind
    return method != "GET" and "reviews" not in point.kind and not point.kind.startswith("dry-run")
