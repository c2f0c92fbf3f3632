"""Every fault at every kind of request, and every step of a launcher's life at which it may be killed or stopped."""

import math
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tests.faults import faults
from tests.faults.proxy import Fault, Rule
from tfsteps.launcher.exit_codes import ExitCode

LINES = 20  # that a job prints, one each 50 ms
MANY_LINES = 1200  # of a job that is stopped long before


@dataclass(frozen=True, kw_only=True)
class Expected:
    """How a case must end.

    Attributes:
        code: The exit code of the last launcher.
        jobs: How many job objects were ever there.
        job_left: Whether it is still there.
        pods_left: Whether pods are still there; None = there may be, the operator may not have made them yet.
        lines: all = every line once; some = each up to the last one once; none.
        because: Words in what the launcher says.
    """

    code: ExitCode = ExitCode.SUCCEEDED
    jobs: int = 1
    job_left: bool = True
    pods_left: bool | None = False
    lines: str = "all"
    because: str = ""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One launch.

    Attributes:
        step: What the launcher is doing.
        fault: What happens then.
        rules: For the proxy: (kind of request, fault, times, how many before are let pass).
        expected: The outcome.
        signal: What the launcher gets at the cue: KILL, TERM, or nothing.
        first: Done to the launcher's Workflow or pod before the signal: `shut down`, `evict`; empty = nothing.
        in_step: The launcher is a step of a Workflow.
        again: What the first launcher exits with, after which a second one is started, as an engine does when it finds
            the first one's pod gone; None = there is no second one.
        same_files: The second launcher finds the first one's files, as in a container that is started again in its pod.
        lines: That the job prints.
        seed: For the proxy.
        job: More of the job's description.
    """

    step: str
    fault: str
    rules: tuple[tuple, ...]
    expected: Expected = Expected()
    signal: str = ""
    first: str = ""
    in_step: bool = False
    again: int | None = None
    same_files: bool = False
    lines: int = LINES
    seed: int = 0
    job: dict = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return a name that is a task's, a file's and a test's."""
        words = f"{self.step} {self.fault}".lower()
        return "-".join("".join(c if c.isalnum() else " " for c in words).split())

    def fresh_rules(self) -> list[Rule]:
        """Return the rules, none of them used up."""
        return [Rule(request, fault, *more) for request, fault, *more in self.rules]


# --- a fault at a request

ALWAYS = math.inf
_LOST_CREATE = ("create job", faults.reset_after)
# Of the last rule only the request is said, and how many of its kind are let pass; each fault is put in.
REQUESTS: dict[str, Case] = {
    "look for it": Case(step="look for it", fault="", rules=(("get job",),)),
    "preflight": Case(step="preflight", fault="", rules=(("preflight",),)),
    "create": Case(step="create", fault="", rules=(("create job",),)),
    "get after 409": Case(step="get after 409", fault="", rules=(_LOST_CREATE, ("get job", 1))),
    "list the job": Case(step="list the job", fault="", rules=(("list job",),)),
    "watch the job": Case(step="watch the job", fault="", rules=(("watch job",),)),
    "list pods": Case(step="list pods", fault="", rules=(("list pods",),)),
    "watch pods": Case(step="watch pods", fault="", rules=(("watch pods",),)),
    "log": Case(step="log", fault="", rules=(("log",),)),
    "delete pods": Case(step="delete pods", fault="", rules=(("delete pods",),)),
    "delete the job": Case(
        step="delete the job",
        fault="",
        rules=(("delete job",),),
        job={"on_end": "delete"},
        expected=Expected(job_left=False),
    ),
    "stop": Case(
        step="stop",
        fault="",
        rules=(("log", faults.cue_after), ("delete job",)),
        signal="TERM",
        lines=MANY_LINES,
        expected=Expected(code=ExitCode.CANCELLED, job_left=False, lines="some"),
    ),
}
_ANYWHERE: dict[str, tuple[Fault, float]] = {
    "refused": (faults.refused, 1),
    "reset": (faults.reset_before, 2),
    "answer lost": (faults.reset_after, 2),
    "late": (faults.delayed, 1),
    "half-open": (faults.half_open, 1),
    "still for 5 s": (faults.still(5), 1),
    "401 once": (faults.status(401), 1),
    "401 always": (faults.status(401), ALWAYS),
    "403 always": (faults.status(403), ALWAYS),
    "409": (faults.status(409), 1),
    "410": (faults.status(410), 1),
    "429": (faults.status(429, Retry_After="1"), 2),
    "500": (faults.status(500), 2),
    "503": (faults.status(503), 2),
    "504": (faults.status(504), 2),
    "log-in page": (faults.answered("text/html", b"<html>\n<body>Please log in.</body>\n</html>\n"), 2),
    "empty object": (faults.answered("application/json", b"{}"), 2),
}
_STREAMS: dict[str, Fault] = {
    "cut": faults.cut,
    "cut in a line": faults.cut_inside,
    "torn": faults.torn,
    "half-open later": faults.half_open_later,
}
_WATCHES: dict[str, Fault] = {"410 in the stream": faults.expired, "old bookmark": faults.old_bookmark}
_MORE = {
    "watch the job": _STREAMS | _WATCHES,
    "watch pods": _STREAMS | _WATCHES | {"cut": faults.ended},  # its first part may be all that is needed
    "log": _STREAMS,
}

_REFUSED = Expected(code=ExitCode.USAGE, lines="none", pods_left=None, because="as the test wants it")
_UNMADE = replace(_REFUSED, jobs=0, job_left=False, pods_left=False)
_RETRY = replace(_REFUSED, code=ExitCode.PLATFORM)
_KEPT = Expected(pods_left=True, because="as the test wants it")
_UNSEEN = Expected(lines="none", because="as the test wants it")
_EXPECTED: dict[str, dict[str, Expected]] = {
    "look for it": dict.fromkeys(["401 always", "409", "410"], _UNMADE),
    "preflight": {"403 always": _UNMADE},
    "create": {
        **dict.fromkeys(["403 always", "410"], _UNMADE),
        "401 always": replace(_UNMADE, code=ExitCode.PLATFORM),  # the token was good a moment ago
    },
    "get after 409": {
        **dict.fromkeys(["401 always", "403 always"], _RETRY),
        **dict.fromkeys(["409", "410"], _REFUSED),
    },
    "list the job": dict.fromkeys(["401 always", "403 always"], replace(_RETRY, lines="all")),
    "list pods": dict.fromkeys(["401 always", "403 always"], replace(_UNSEEN, pods_left=True)),
    "log": {"403 always": _UNSEEN, "401 always": replace(_UNSEEN, because="could not be read for")},
    "delete pods": dict.fromkeys(["401 always", "403 always", "409", "410"], _KEPT),
    "delete the job": dict.fromkeys(["401 always", "403 always", "409", "410"], _KEPT),
    "stop": dict.fromkeys(
        ["401 always", "403 always"],
        replace(_RETRY, lines="some", because="it could not be deleted: as the test wants it"),
    ),
}


def _at_requests() -> Iterator[Case]:
    for request, case in REQUESTS.items():
        for fault, (harm, times) in _ANYWHERE.items():
            yield _with(case, fault, harm, times)
        for fault, harm in _MORE.get(request, {}).items():
            yield _with(case, fault, harm, 1)


def _with(case: Case, fault: str, harm: Fault, times: float) -> Case:
    *before, (kind, *skip) = case.rules
    expected = _EXPECTED.get(case.step, {}).get(fault, case.expected)
    return replace(case, fault=fault, rules=(*before, (kind, harm, times, *skip)), expected=expected)


def _outages() -> Iterator[Case]:
    yield Case(step="running", fault="down for 60 s", rules=(("log", faults.down_later(60)),), lines=100)
    for seed in (1, 2, 3, 4):
        yield Case(step="all the time", fault=f"storm {seed}", rules=(("any", faults.storm, 12, 0, 0.4),), seed=seed)


# --- a launcher killed, or stopped, at a step of its life

_STEPS: dict[str, tuple[tuple, ...]] = {
    "before create": (("create job", faults.cue_before),),
    "created, not told": (("create job", faults.cue_after),),
    "pending": (("list pods", faults.cue_before),),
    "running": (("log", faults.cue_after),),
    "before clean-up": (("delete pods", faults.cue_before),),
    "during clean-up": (("delete pods", faults.cue_after),),
}
_ENDED = ("before clean-up", "during clean-up")


def _killed() -> Iterator[Case]:
    for step, rules in _STEPS.items():
        same = step == "before create"  # later, the second one would write its log where the first one's is
        yield Case(step=step, fault="killed", rules=rules, signal="KILL", again=-signal.SIGKILL, same_files=same)


def _stopped() -> Iterator[Case]:
    cancelled = Expected(code=ExitCode.CANCELLED, job_left=False, lines="some")
    for step, rules in _STEPS.items():
        ended = step in _ENDED
        case = Case(
            step=step,
            fault="",
            rules=rules,
            signal="TERM",
            lines=LINES if ended else MANY_LINES,
            expected=Expected() if ended else cancelled,
        )
        yield replace(case, fault="SIGTERM")
        yield replace(case, fault="SIGTERM, the step alone", in_step=True)
        yield replace(case, fault="SIGTERM, Workflow terminated", in_step=True, first="shut down")
        left = ExitCode.SUCCEEDED if ended else ExitCode.PLATFORM
        yield replace(
            case,
            fault="SIGTERM, pod evicted",
            in_step=True,
            first="evict",
            again=left,
            lines=LINES,
            expected=Expected(),
        )
    down = faults.cue_and(faults.down(8))
    yield Case(
        step="before create",
        fault="SIGTERM, API server down",
        rules=(("create job", down),),
        signal="TERM",
        expected=Expected(code=ExitCode.PLATFORM, jobs=0, job_left=False, lines="none", because="is not known"),
    )
    yield Case(
        step="running",
        fault="SIGTERM, API server down",
        rules=(("watch pods", down),),
        signal="TERM",
        lines=MANY_LINES,
        expected=cancelled,
    )
    yield Case(
        step="running",
        fault="Workflow terminated, no SIGTERM",
        rules=_STEPS["running"],
        in_step=True,
        first="shut down",
        lines=MANY_LINES,
        expected=cancelled,
    )


FAULTS = (*_ANYWHERE, *_STREAMS, *_WATCHES)
OUTAGES = (*_outages(),)
LIFE = (*_killed(), *_stopped())
CASES = {case.name: case for case in (*OUTAGES, *LIFE, *_at_requests())}
