"""`python -m benchmarks [NAME ...]`: run them, print a table, and write benchmarks/results.json.

Each benchmark is a function that yields rows; only the rows that were measured are replaced in the file.
"""

import json
import pathlib
import sys

from benchmarks import local
from benchmarks.measure import Row

BENCHMARKS = {"local": local.rows}
RESULTS = pathlib.Path(__file__).parent / "results.json"


def main(names: list[str]) -> None:
    if unknown := set(names) - set(BENCHMARKS):
        sys.exit(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    print(f"{'row':<28} {'value':>9} {'goal':>9}  {'unit':<6} {'baseline':>9} {'ratio':>7}  runs", flush=True)
    for name in names or BENCHMARKS:
        for row in BENCHMARKS[name]():
            results[row.name] = row.result()
            print(_line(row), flush=True)
    RESULTS.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")


def _line(row: Row) -> str:
    ratio = f"{row.ratio:.2f}" if row.ratio is not None else "-"
    baseline = f"{row.baseline:.3f}" if row.baseline is not None else "-"
    return f"{row.name:<28} {row.value:>9.3f} {row.goal:>9.3f}  {row.unit:<6} {baseline:>9} {ratio:>7}  {row.runs}"


if __name__ == "__main__":
    main(sys.argv[1:])
