"""`python -m tests.unknown`: all scenarios, each request with each fault; writes docs/operate/faults-by-request.md.

With --every, it writes the page of the cases that it runs.

What is wrong is printed as one line for each case, with the command that runs it alone.
"""

import argparse
import asyncio
import pathlib
import shlex
import sys
import time

from tests.unknown.page import page
from tests.unknown.run import AT_ONCE, Result, Runner
from tests.unknown.scenarios import SCENARIOS

_PAGE = pathlib.Path(__file__).parents[2] / "docs/operate/faults-by-request.md"
_PROGRESS_SECONDS = 30.0


class _Printer:
    """Prints what is wrong, and how far it is."""

    def __init__(self, *, verbose: bool):
        self.runs = self.wrong = self.unmet = 0
        self._verbose = verbose
        self._began = self._said = time.monotonic()

    def __call__(self, result: Result) -> None:
        case = result.case
        self.runs += 1
        self.unmet += bool(case.fault) and not result.met
        self.wrong += bool(result.problems)
        if result.problems:
            print(f"FAILED {case}: {'; '.join(result.problems)}")
            words = ["--scenario", case.scenario, "--system", case.system, "--case", str(case), "--verbose"]
            print(f"    python -m tests.unknown {shlex.join(words)}")
            if self._verbose:
                print(*result.outputs, sep="\n")
        if time.monotonic() - self._said > _PROGRESS_SECONDS:
            self.progress()
        sys.stdout.flush()

    def progress(self) -> None:
        self._said = time.monotonic()
        left = f"{self.wrong} wrong, in {self.unmet} the request did not come"
        print(f"{self._said - self._began:6.0f} s  {self.runs} runs, {left}", flush=True)


def main() -> int:
    """Return 0 if nothing is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", action="append", help="just this one; may be given again")
    parser.add_argument("--system", action="append", help="just this one; may be given again")
    parser.add_argument("--case", default="", help="just the cases whose name contains this text")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="just each Nth case")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, metavar="N", help=f"so many at once; default {AT_ONCE}")
    parser.add_argument("--mutant", default="", help="a defect to put into the launchers: a name in mutants.py")
    parser.add_argument("--verbose", action="store_true", help="print what the launchers of failed cases print")
    options = parser.parse_args()
    say = _Printer(verbose=options.verbose)

    def chosen(number, case):
        return number % options.every == 0 and options.case in str(case)

    async def run():
        runner = Runner(options.at_once, options.mutant, say)
        scenes = [
            runner.scenario(name, system, chosen)
            for name, scenario in SCENARIOS.items()
            for system in scenario.systems
            if name in (options.scenario or SCENARIOS) and system in (options.system or scenario.systems)
        ]
        return [result for scene in await asyncio.gather(*scenes) for result in scene]

    results = asyncio.run(run())
    say.progress()
    if not (options.scenario or options.system or options.case or options.mutant):
        _PAGE.write_text(page(results, options.every), encoding="utf-8")
    return 1 if say.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
