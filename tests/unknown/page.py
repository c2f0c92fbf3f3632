"""The results of a whole run, as a page: how many runs of each scenario, and what was wrong."""

from collections.abc import Iterable

from tests.support.markdown import entry, table
from tests.unknown.faults import OUTAGE_SECONDS, SLOW_SECONDS
from tests.unknown.run import Result
from tests.unknown.scenarios import ALL, SCENARIOS

_HEAD = """# A fault at each request

<!-- Written by `make unknown`. -->

A scenario is a part of a job's life. Each scenario runs once on each job system without a fault, and its requests are
recorded. Then it runs again for each request with each fault.
{share}{good} of {runs} runs ended as they must.

Real steps of a Workflow, the real janitor and the real `tfsteps stop` send the requests, over TLS. The API server and
HAI Platform are small servers with a state: objects, watches, logs, an operator and the garbage collector.
[Behaviour under faults](faults.md) has fewer faults, on a real cluster.

After each run:

- A healthy job that nobody asked to stop exists. Nobody has stopped it, and no second one runs beside it.
- A job that was asked to stop is gone, or a launcher ended with exit code 13 and said that the job is still there.
- The exit code is that of the run without a fault. After a refusal, 403 or 404, it may be 13, or 2 if there is no job.
- No message says that nothing was created while the job exists.
- Each job has an owner, and its end is the end of its run.
- There is no traceback, and the requests are few.

| fault | what happens to the request |
|---|---|
| 429 | Answered with status 429 and `Retry-After: 1`, once |
| 500, 403, 404 | Answered with this status, once |
| reset | The connection is reset, and nothing is done |
| answer lost | It is done, and then the connection is reset; only for requests that change something |
| time-out | There is no answer |
| slow | Answered after {slow:.0f} s |
| {{}}, log-in page | Answered with status 200, and something else than was asked for |
| outage | From this request on, all connections are reset for {outage:.0f} s |

The scenarios are:

{scenarios}

Each cell has the number of requests and the number of runs:

"""


def page(results: Iterable[Result], every: int = 1) -> str:
    """Return the page of a run of all cases, or of each Nth."""
    results = list(results)
    good = sum(not result.problems for result in results)
    share = "" if every == 1 else f"This page is of a run of each {every}th case. "
    head = _HEAD.format(
        share=share,
        good=good,
        runs=len(results),
        slow=SLOW_SECONDS,
        outage=OUTAGE_SECONDS,
        scenarios="\n".join(entry(f"**{name}**", scenario.about) for name, scenario in SCENARIOS.items()),
    )
    rows = [
        [
            name,
            *(_cell([item for item in results if (item.case.scenario, item.case.system) == (name, on)]) for on in ALL),
        ]
        for name in SCENARIOS
    ]
    return f"{head}{table(['scenario', *ALL], rows)}\n"


def _cell(results):
    points = {result.case.point for result in results if result.case.point}
    wrong = sum(bool(result.problems) for result in results)
    return f"{len(points)}, {len(results)}" + (f" ({wrong} wrong)" if wrong else "") if results else ""
