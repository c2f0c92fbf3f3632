"""Small ways to break the launcher, and the cases of the matrix that must go red with each.

A case that no mutant turns red proves nothing. A mutant breaks what its cases protect and no more: a launch that
meets no fault must still succeed with it.
"""

import fnmatch
import pathlib
import shutil
from dataclasses import dataclass

import tfsteps
from tests.faults.cases import CASES, Case

PACKAGE = pathlib.Path(tfsteps.__file__).parent
_API, _HTTP, _WATCH, _LOGS, _LINES = (
    f"kube/{name}.py" for name in ("client", "http_client", "watch", "logs", "log_lines")
)
_STOP = "systems/stop_controller.py"
_HOST = "systems/launcher_pod.py"
_SYSTEM, _JOB, _FOLLOWING = (f"systems/kubernetes/{name}.py" for name in ("system", "follow/job", "follow/following"))


@dataclass(frozen=True)
class Edit:
    """In one file, a text that stands there once, and what it is replaced by."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A broken launcher.

    Attributes:
        broken: What it does wrong, in words.
        edits: How the package is changed.
        cases: Which cases must go red: by step the names of faults, as patterns of `fnmatch` with `|` between them.
    """

    broken: str
    edits: tuple[Edit, ...]
    cases: dict[str, str]

    def chosen(self) -> list[Case]:
        """Return the cases that must go red."""
        return [case for case in CASES.values() if _matches(case, self.cases)]

    def make(self, folder: pathlib.Path, package: pathlib.Path = PACKAGE) -> pathlib.Path:
        """Write the broken package below `folder` and return `folder`. ValueError if an edit does not fit."""
        shutil.copytree(package, folder / "tfsteps", ignore=shutil.ignore_patterns("__pycache__"))
        for edit in self.edits:
            file = folder / "tfsteps" / edit.file
            text = file.read_text()
            if text.count(edit.old) != 1:
                raise ValueError(f"{edit.file} has {text.count(edit.old)} times: {edit.old!r}")
            file.write_text(text.replace(edit.old, edit.new))
        return folder


def _matches(case: Case, cases: dict[str, str]) -> bool:
    return any(
        fnmatch.fnmatchcase(case.step, step)
        and any(fnmatch.fnmatchcase(case.fault, fault) for fault in faults.split("|"))
        for step, faults in cases.items()
    )


# --- edits that several mutants share

_HASTY = Edit(  # what is late is taken for lost
    _API,
    "            response = self.exchange(method, path, query or {}, content, headers, read_seconds=read_seconds)\n",
    "            quiet = self._read_seconds if read_seconds is None else read_seconds\n"
    "            hasty = quiet if refused else min(quiet, 1.2)\n"
    "            response = self.exchange(method, path, query or {}, content, headers, read_seconds=hasty)\n"
    '            if not refused and getattr(response.connection, "sock", None):\n'
    "                response.connection.sock.settimeout(quiet)\n",
)
_HASTY_LOG = Edit(
    _LOGS,
    "                    await stream.begin(_QUIET_SECONDS if follows else _ANSWER_SECONDS)\n",
    "                    await stream.begin(1.2)\n"
    "                    stream._silence = _QUIET_SECONDS if follows else _ANSWER_SECONDS\n",
)
_NO_NEW_TOKEN = (
    Edit(_API, "            if response.status != 401 or refused:\n", "            if True:\n"),
    Edit(_LOGS, "                    if stream.status != 401 or refused:\n", "                    if True:\n"),
)
_NO_LAST_LOOK = Edit(_FOLLOWING, "yield from self._last_look()", "set[str]()")
_FRAGILE_WATCH = (
    Edit(
        _WATCH,
        "                if refused := self._refusal(error):\n",
        "                if refused := Refused(str(error), error.status):\n",
    ),
)
_FRAGILE_LOG = Edit(
    _LOGS,
    "                if error.status in (403, 404):\n",
    "                return str(error)\n                if error.status in (403, 404):\n",
)
_PREFLIGHT_RAISES = Edit(
    "systems/kubernetes/permissions.py",
    "    except ApiError:\n        return []\n    missing",
    "    except ZeroDivisionError:\n        return []\n    missing",
)
_CLEAN_UP_RAISES = Edit(
    "launcher/lifecycle.py",
    '            status.warnings.append(f"Something is left: {error}.")\n',
    "            raise\n",
)

# --- faults, as the cases call them

_LOST = "refused|reset|answer lost|half-open|still for 5 s"
_BUSY = "429|500|503|504"
_ELSE = "log-in page|empty object"
_BROKEN_OFF = "cut in a line|torn|half-open later"

MUTANTS = (
    Mutant(
        "looks for its job once, and takes what is late for lost",
        (
            Edit(
                _SYSTEM,
                "self._api.get(resource, namespace, name, allowed=allowed)",
                "self._api.get(resource, namespace, name, once=True)",
            ),
            _HASTY,
        ),
        {"look for it": f"{_LOST}|late|{_BUSY}", "get after 409": f"{_LOST}|late|{_BUSY}"},
    ),
    Mutant(
        "sends its job once, and takes what is late for lost",
        (
            Edit(
                _API,
                "            return send() if once else self.retry(send)\n",
                "            return send()\n",
            ),
            _HASTY,
        ),
        {"create": f"{_LOST}|late|{_BUSY}"},
    ),
    Mutant(
        "does not read its token again when it is refused",
        (
            *_NO_NEW_TOKEN,
            Edit(_API, "        error.transient = error.status == 401 and self.known\n", ""),
            Edit(_JOB, "Cause.CANCELLED: 20.0", "Cause.CANCELLED: -1.0"),
            *_FRAGILE_WATCH,
            _NO_LAST_LOOK,
            _FRAGILE_LOG,
            _PREFLIGHT_RAISES,
        ),
        {"*": "401 once"},
    ),
    Mutant(
        "tries again what can only be refused again",
        (Edit("kube/errors.py", "_UNAVAILABLE = {429,", "_UNAVAILABLE = {401, 403, 409, 410, 429,"),),
        {
            "look for it": "401 always|409|410",
            "create": "403 always|410",
            "get after 409": "409|410",
        },
    ),
    Mutant(
        "takes what something else answers for the API server's refusal",
        (
            Edit("kube/errors.py", '{shown}; {hint}", 502)', '{shown}; {hint}", 400)'),
            *_FRAGILE_WATCH,
            _NO_LAST_LOOK,
            _FRAGILE_LOG,
            _PREFLIGHT_RAISES,
            _CLEAN_UP_RAISES,
        ),
        {
            **dict.fromkeys(["look for it", "preflight", "create", "get after 409"], _ELSE),
            **dict.fromkeys(["list *", "watch *", "delete *"], _ELSE),
            "log": "log-in page",
        },
    ),
    Mutant(
        "takes what was allowed before, and is refused now, for refused for good",
        (
            Edit(_API, "        error.transient = error.status == 401 and self.known\n", ""),
            Edit(_HTTP, "                error.transient |= allowed and error.status == 403\n", ""),
        ),
        {"create": "401 always", "get after 409": "401 always|403 always"},
    ),
    Mutant(
        "must be allowed to look for its job",
        (Edit(_SYSTEM, "if error.missing or (error.status == 403 and not allowed):", "if error.missing:"),),
        {"look for it": "403 always"},
    ),
    Mutant(
        "does not adopt a job that is there already",
        (
            Edit(
                _SYSTEM,
                "            if (existing := self._existing(rendered, allowed=True)) is not None:\n",
                "            raise\n            if (existing := None) is not None:\n",
            ),
        ),
        {"create": "409|answer lost"},
    ),
    Mutant(
        "takes a question that was not answered for a no",
        (_PREFLIGHT_RAISES, _HASTY),
        {"preflight": f"{_LOST}|late|401 always|409|410|{_BUSY}"},
    ),
    Mutant(
        "creates what the API server is known to refuse",
        (
            Edit(
                _SYSTEM,
                "        if problems := findings.findings(self._api, self._kind, job, rendered):\n",
                "        if problems := findings.findings(self._api, self._kind, job, rendered)[:0]:\n",
            ),
        ),
        {"preflight": "403 always"},
    ),
    Mutant(
        "gives up a watch at the first error",
        (*_FRAGILE_WATCH, _NO_LAST_LOOK, _HASTY),
        {
            "list the job": f"{_LOST}|late|409|410|{_BUSY}",
            "list pods": f"{_LOST}|late|409|410|{_BUSY}",
            "watch *": f"{_LOST}|late|409|410|{_BUSY}|{_BROKEN_OFF}|410 in the stream|old bookmark",
            "running": "down for 60 s",
            "all the time": "storm *",
        },
    ),
    Mutant(
        "listens for ever to a watch that says nothing",
        (Edit(_WATCH, "read_seconds=quiet)", "read_seconds=3600)"), _NO_LAST_LOOK),
        {"watch *": "half-open|half-open later"},
    ),
    Mutant(
        "takes the end of a watch for the end of all changes",
        (
            Edit(
                _WATCH,
                "                version = self._follow(version)\n",
                "                version = self._follow(version)\n                raise Stopped\n",
            ),
            _NO_LAST_LOOK,
        ),
        {"watch *": "cut|old bookmark"},
    ),
    Mutant(
        "takes a list that is refused for a while for refused for good",
        (
            Edit(
                "systems/kubernetes/follow/job_object.py",
                'cannot be watched any more: {error}", retryable=retryable',
                'cannot be watched any more: {error}", retryable=False',
            ),
        ),
        {"list the job": "401 always|403 always"},
    ),
    Mutant(
        "gives up where only the watch is refused",
        (
            Edit(
                _WATCH,
                "        lasted = now - self._refused_since >= self._api.patience\n",
                "        lasted = error.status in _DENIED\n",
            ),
        ),
        {"watch the job": "401 always|403 always"},
    ),
    Mutant(
        "does not say why pods were never seen",
        (Edit(_FOLLOWING, "        if not pods.known:\n", "        if False:\n"),),
        {"list pods": "401 always|403 always"},
    ),
    Mutant(
        "does not look at the pods at the end",
        (_NO_LAST_LOOK,),
        {"watch pods": "401 always|403 always"},
    ),
    Mutant(
        "reads a log once, and takes what is late for lost",
        (_FRAGILE_LOG, _HASTY_LOG),
        {"log": f"refused|reset|answer lost|late|still for 5 s|409|410|{_BUSY}|torn"},
    ),
    Mutant(
        "takes what an answer ends with for a line",
        (
            Edit(
                _LOGS,
                "        if not state.ended or before < position.lines:\n",
                "        self._output.take_rest(position, self._last)\n"
                "        if not state.ended or before < position.lines:\n",
            ),
        ),
        {"log": "empty object"},
    ),
    Mutant(
        "waits for the end of a log whose container has ended",
        (Edit(_LOGS, "call_later(_END_SECONDS, self._close_answer)", "call_later(0, str)"),),
        {"log": "half-open|half-open later"},
    ),
    Mutant(
        "takes the end of an answer for the end of the log",
        (Edit(_LOGS, "        if not state.ended or before < position.lines:\n", "        if False:\n"),),
        {"log": "cut|cut in a line"},
    ),
    Mutant(
        "resumes a log some seconds too late",
        (Edit(_LINES, "_LATE = dt.timedelta(milliseconds=100)", "_LATE = dt.timedelta(seconds=-5)"),),
        {"log": "cut|torn|half-open later", "running": "down for 60 s"},
    ),
    Mutant(
        "asks again for a log that it may not read",
        (Edit(_LOGS, "(state.ended and error.status == 403)", "False"),),
        {"log": "403 always"},
    ),
    Mutant(
        "waits for a log without limit",
        (
            Edit(
                _FOLLOWING,
                "        while not drain.over and not stop.repeated:\n            unexplained",
                "        while not stop.repeated:\n            unexplained",
            ),
        ),
        {"log": "401 always"},
    ),
    Mutant(
        "deletes once at the end, and fails if that fails",
        (
            Edit(
                _API,
                "        return self.retry(send)\n\n    def _delete(",
                "        return send()\n\n    def _delete(",
            ),
            _CLEAN_UP_RAISES,
            _HASTY,
        ),
        {"delete *": f"{_LOST}|late|{_BUSY}"},
    ),
    Mutant(
        "takes a failed clean-up for a failed job",
        (_CLEAN_UP_RAISES,),
        {"delete *": "401 always|403 always|409|410"},
    ),
    Mutant(
        "sends the deletion of a stop once",
        (Edit(_STOP, "if now - stopping.sent > _AGAIN_SECONDS:", "if False:"),),
        {"stop": f"refused|reset|409|410|{_BUSY}|{_ELSE}", "running": "SIGTERM, API server down"},
    ),
    Mutant(
        "takes a deletion that was not answered for refused, and what is late for lost",
        (
            Edit(
                _STOP,
                "stopping.error and (stopping.error.status in _DENIALS or not stopping.error.unavailable)",
                "stopping.error",
            ),
            Edit(_JOB, "Cause.CANCELLED: 20.0", "Cause.CANCELLED: -1.0"),
            _HASTY,
        ),
        {"stop": "answer lost|half-open|still for 5 s|late"},
    ),
    Mutant(
        "deletes for ever what it may not delete",
        (Edit(_STOP, "if denied or now", "if now"),),
        {"stop": "401 always|403 always"},
    ),
    Mutant(
        "holds a task's files beyond its death",
        (Edit("runs/lock.py", "os.O_RDWR | os.O_CREAT | os.O_CLOEXEC", "os.O_RDWR | os.O_CREAT | os.O_EXCL"),),
        {"before create": "killed"},
    ),
    Mutant(
        "gives a job another name each time",
        (
            Edit(
                "runs/identity.py",
                "{short_hash(self.run, self.task, str(self.attempt))}",
                "{short_hash(self.run, self.task, secrets.token_hex(4))}",
            ),
        ),
        {
            "created, not told": "killed|SIGTERM, pod evicted",
            "pending": "killed|SIGTERM, pod evicted",
            "running": "killed|SIGTERM, pod evicted",
            "* clean-up": "killed|SIGTERM, pod evicted",
        },
    ),
    Mutant(
        "takes its pod's eviction for a stop",
        (Edit(_STOP, "            if cause is Cause.CANCELLED and self._in_pod:\n", "            if False:\n"),),
        {
            "before create": "SIGTERM, pod evicted",
            "created, not told": "SIGTERM, pod evicted",
            "pending": "SIGTERM, pod evicted",
            "running": "SIGTERM, pod evicted",
        },
    ),
    Mutant(
        "takes every SIGTERM for its pod's eviction",
        (
            Edit(_HOST, "        if self.pipeline is None:\n            return YES\n", "        return YES\n"),
            Edit(_HOST, 'or disrupted or meta.get("deletionTimestamp"):', "or True:"),
            Edit(
                _STOP,
                "            case _ if pipeline and pipeline.terminating.yes:\n",
                "            case _ if False:\n",
            ),
        ),
        {
            "before create": "SIGTERM, the step alone|SIGTERM, Workflow terminated",
            "created, not told": "SIGTERM, the step alone|SIGTERM, Workflow terminated",
            "pending": "SIGTERM, the step alone|SIGTERM, Workflow terminated",
            "running": "SIGTERM, the step alone|SIGTERM, Workflow terminated",
        },
    ),
    Mutant(
        "ends at a SIGTERM without deleting its job",
        (
            Edit(
                _JOB,
                'or there is no answer."""\n'
                "        client.delete(self._kind.resource, self.namespace, self.name, self.uid)\n",
                'or there is no answer."""\n'
                '        self._tracker.give_up(Verdict(State.CANCELLED, "Stopped"), time.time())\n',
            ),
        ),
        {
            "before create": "SIGTERM",
            "created, not told": "SIGTERM",
            "pending": "SIGTERM",
            "running": "SIGTERM",
        },
    ),
    Mutant(
        "deletes at a SIGTERM a job that has ended",
        (
            Edit(
                _STOP,
                "        elif self.cause is None and not self._job.ended:\n",
                "        elif self.cause is None:\n",
            ),
        ),
        {"* clean-up": "SIGTERM|SIGTERM, the step alone|SIGTERM, Workflow terminated"},
    ),
    Mutant(
        "goes on creating its job after a SIGTERM",
        (Edit("systems/kubernetes/job_cluster.py", "        self.stopping.set()\n", "        return\n"),),
        {"before create": "SIGTERM, API server down"},
    ),
    Mutant(
        "does not watch its Workflow",
        (
            Edit(
                _STOP,
                "            case _ if pipeline and pipeline.terminating.yes:\n",
                "            case _ if False:\n",
            ),
        ),
        {"running": "Workflow terminated, no SIGTERM"},
    ),
)
