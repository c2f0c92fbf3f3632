"""The cluster that the cases need, the stand-in image on it, and the cases' outcomes, which come in side by side."""

import concurrent.futures
import os
import pathlib

import pytest

from tests.cluster import images, paths
from tests.conformance.case import Case
from tests.conformance.environment import Environment
from tests.conformance.systems import System
from tfsteps.kube import access
from tfsteps.kube.client import Api

_ROOT = pathlib.Path(__file__).parents[2]
_AT_ONCE = 6  # most of them wait


@pytest.fixture(scope="session")
def kubeconfig():
    """Return the file that KUBECONFIG names, else that of the cluster of `make cluster`, which must run then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", os.environ.get("KUBECONFIG", str(paths.KUBECONFIG)))
        file = pathlib.Path(os.environ["KUBECONFIG"])
        assert file.exists(), f"there is no {file}: run `make cluster`, or set KUBECONFIG"
        yield file


@pytest.fixture(scope="session")
def build(kubeconfig):
    """Return a function that gives one of `images/`, built once for its content."""
    return lambda name: images.provide_own(name, _ROOT / "images" / name / "Dockerfile", _ROOT)


@pytest.fixture(scope="session")
def case_outcomes(request, kubeconfig, build, tmp_path_factory):
    """Start the selected cases, a few at once, in the order in which their tests stand; return their futures."""
    image = build("standin")
    folder = tmp_path_factory.mktemp("conformance")
    api = Api(access.find())

    def run(system: System, case: Case) -> None:
        with Environment(system, api, image, folder / f"{system.name}-{case.name.replace(' ', '-')}") as environment:
            case.run(environment)

    chosen = [
        item.callspec.params for item in request.session.items if "case_outcomes" in getattr(item, "fixturenames", ())
    ]
    together = [(entry["system"], entry["case"]) for entry in chosen if not entry["case"].alone]
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        futures = {(system.name, case.name): pool.submit(run, system, case) for system, case in together}

        def outcome(system, case):
            if case.alone:
                concurrent.futures.wait(futures.values())
                return run(system, case)
            return futures[system.name, case.name].result()

        yield outcome
        pool.shutdown(cancel_futures=True)
