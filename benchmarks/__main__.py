"""`python -m benchmarks [--quick] [NAME ...]`: run them, print them, keep them in results.json and performance.md.

Each benchmark is a function that yields rows; only the rows that were measured are replaced. `kubernetes` needs a
cluster. With --quick it takes a few minutes, and nothing is kept.
"""

import argparse
import datetime as dt
import json
import os
import pathlib
import platform

from benchmarks import (
    authoring,
    command,
    fleet,
    janitor,
    kubernetes,
    local,
    logs,
    peers,
    replicas,
    report,
    run_list,
    tensorboard,
    usage,
)
from benchmarks.measure import times_slower
from tests.cluster import paths
from tests.support.markdown import entry

BENCHMARKS = {
    "command": command.rows,
    "local": local.rows,
    "authoring": authoring.rows,
    "kubernetes": kubernetes.rows,
    "logs": logs.rows,
    "replicas": replicas.rows,
    "report": report.rows,
    "tensorboard": tensorboard.rows,
    "run_list": run_list.rows,
    "janitor": janitor.rows,
    "usage": usage.rows,
    "fleet": fleet.rows,
    "peers": peers.rows,
}
ON_CLUSTER = {"kubernetes", "logs", "run_list", "fleet", "peers"}
RESULTS = pathlib.Path(__file__).parent / "results.json"
PAGE = RESULTS.parents[1] / "docs" / "operate" / "performance.md"
PAGE_TEXT = """# Performance

<!-- Written by `make bench`. -->

Each value is the median of pairs of runs, taken in turn: with tfsteps, and the same without it (the baseline). Rows of
a launcher on Kubernetes were measured on the cluster of `make cluster`, which shared the machine's cores. `make bench`
measures again; each row has its date. A goal in seconds is that of the machine where it was set, times how many times
as long Python's own start takes here (the number after the `x`). Last measured on {machine}.
[What each row is](#what-each-row-is) follows the table.

| row | value | goal | baseline | ratio | runs | measured |
|---|---|---|---|---|---|---|
{rows}
## What each row is

{entries}"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; left out: all")
    parser.add_argument("--quick", action="store_true", help="fewer runs, for a look; the results are not kept")
    args = parser.parse_args()
    if unknown := set(args.names) - set(BENCHMARKS):
        parser.error(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
    measured, slower = {}, times_slower()
    print(f"Python takes {slower:.2f} times what it took where the goals were set")
    print(f"{'row':<28} {'value':>9} {'goal':>9}  {'unit':<6} {'baseline':>9} {'ratio':>7}  runs", flush=True)
    for name in args.names or _possible():
        for row in BENCHMARKS[name](quick=args.quick):
            measured[row.name] = row.result(slower)
            print(_line(row.name, measured[row.name]), flush=True)
    if not args.quick:
        _keep(measured)


def _possible() -> list[str]:
    """Return the names of the benchmarks that this machine can run."""
    if pathlib.Path(os.environ.get("KUBECONFIG", paths.KUBECONFIG)).exists():
        return list(BENCHMARKS)
    print(f"left out, for there is no cluster (`make cluster`): {', '.join(sorted(ON_CLUSTER))}")
    return [name for name in BENCHMARKS if name not in ON_CLUSTER]


def _keep(measured: dict[str, dict]) -> None:
    today = {"measured": dt.datetime.now(dt.UTC).date().isoformat()}
    results = json.loads(RESULTS.read_text()) | {name: row | today for name, row in measured.items()}
    RESULTS.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
    PAGE.write_text(page(results, f"{os.cpu_count()} cores, Python {platform.python_version()}"))


def page(results: dict[str, dict], machine: str) -> str:
    """Return the page of results.json, whose newest rows were measured on `machine`."""
    rows = "".join(_table_row(name, row) for name, row in sorted(results.items()))
    entries = "".join(entry(f"`{name}`", row["what"]) + "\n" for name, row in sorted(results.items()))
    return PAGE_TEXT.format(machine=machine, rows=rows, entries=entries)


def _table_row(name: str, row: dict) -> str:
    value, goal, baseline = (
        f"{row[key]:g} {row['unit']}" if row[key] is not None else "" for key in ("value", "goal", "baseline")
    )
    if row.get("goal_is"):
        goal += f" ({row['goal_is']})"
    ratio = f"{row['ratio']:g}" if row["ratio"] is not None else ""
    cells = [f"`{name}`", value, goal, baseline, ratio, row["runs"], row["measured"]]
    return f"| {' | '.join(map(str, cells))} |\n"


def _line(name: str, row: dict) -> str:
    goal, baseline, ratio = ("-" if row[key] is None else f"{row[key]:.3f}" for key in ("goal", "baseline", "ratio"))
    return f"{name:<28} {row['value']:>9.3f} {goal:>9}  {row['unit']:<6} {baseline:>9} {ratio:>7}  {row['runs']}"


if __name__ == "__main__":
    main()
