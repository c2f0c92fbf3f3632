"""A covering selection of all scenarios, requests and faults, and defects that the judge must see."""

import asyncio
import zlib

import pytest

from tests.unknown.run import Case, Runner
from tests.unknown.scenarios import SCENARIOS
from tests.unknown.server import Point

STRIDE = 37
"""Each so manieth case is run: it and the number of faults have no common factor, so that all come at all requests."""

SCENES = [(name, system) for name, scenario in SCENARIOS.items() for system in scenario.systems]


def _name(scene):
    return "-".join(scene).replace(" ", "_")


@pytest.fixture(scope="module")
def results(request):
    """The results of the selected tests, by scenario and system: all run at once: mostly they wait."""
    scenes = [item.callspec.params["scene"] for item in request.session.items if item.module is request.module
              and "scene" in item.callspec.params]  # fmt: skip

    async def run():
        runner = Runner()
        await asyncio.gather(*(runner.scenario(*scene, _chosen(scene)) for scene in scenes))
        return runner.results

    by_case: dict = {}
    for result in asyncio.run(run()):
        by_case.setdefault((result.case.scenario, result.case.system), []).append(result)
    return by_case


def _chosen(scene):
    offset = zlib.crc32(_name(scene).encode()) % STRIDE
    return lambda number, _case: number % STRIDE == offset


@pytest.mark.parametrize("scene", SCENES, ids=_name)
def test_a_fault_at_a_request(scene, results):
    wrong = [f"{result.case}: {'; '.join(result.problems)}" for result in results[scene] if result.problems]
    assert not wrong, "\n".join(wrong)


DEFECTS = {
    "always_green": (Case("fail", "kubeflow"), "but its job has not succeeded"),
    "deletes": (Case("succeed", "kubeflow"), "has deleted the healthy job of wf.fit"),
    "no_owner": (Case("succeed", "jobset"), "has no owner"),
    "never_pauses": (Case("succeed", "kubeflow", Point("first", "create tfjobs", 1), "outage"), "are enough"),
    "keeps": (Case("clean up in a dag", "kubeflow"), "was to stop and is still there, and nobody says so"),
    "all_siblings": (Case("clean up in a dag", "jobs"), "has deleted the healthy job of wf.sibling"),
    "folds": (Case("evict", "kubeflow", Point("first", "get pods", 2), "500"), "has deleted the healthy job of wf.fit"),
    "breaks": (Case("succeed", "kubeflow"), "The step cannot go on: KeyError"),
}


@pytest.mark.parametrize("mutant", DEFECTS)
def test_the_judge_sees_a_defect(mutant):
    case, words = DEFECTS[mutant]
    result = asyncio.run(Runner(mutant=mutant).case(case))
    assert words in " ".join(result.problems)
