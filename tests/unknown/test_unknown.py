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
def scenes(request):
    """A function that waits for the results of a scene. All selected ones run at once: mostly they wait."""
    selected = [item.callspec.params["scene"] for item in request.session.items if item.module is request.module
                and "scene" in item.callspec.params]  # fmt: skip

    async def start():
        runner = Runner()
        return {scene: asyncio.create_task(runner.scenario(*scene, _chosen(scene))) for scene in selected}

    async def results(scene):
        return await tasks[scene]

    with asyncio.Runner() as loop:
        tasks = loop.run(start())
        yield lambda scene: loop.run(results(scene))


def _chosen(scene):
    offset = zlib.crc32(_name(scene).encode()) % STRIDE
    return lambda number, _case: number % STRIDE == offset


@pytest.mark.parametrize("scene", SCENES, ids=_name)
def test_a_fault_at_a_request(scene, scenes):
    wrong = [f"{result.case}: {'; '.join(result.problems)}" for result in scenes(scene) if result.problems]
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
