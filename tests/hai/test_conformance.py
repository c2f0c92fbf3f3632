"""The cases of every job system that HAI can be asked for, with the real launcher, on a server with the protocol."""

import concurrent.futures

import pytest

from tests.conformance.control_channel import held, succeeded
from tests.conformance.verdicts import check
from tests.hai import pods
from tests.hai.cases import CASES
from tests.hai.environment import HaiEnvironment
from tests.support.waiting import until

pytestmark = [pytest.mark.skipif(not pods.may_isolate(), reason="ranks need namespaces, which root may make")]

_AT_ONCE = 4


@pytest.fixture(scope="module")
def outcomes(request, tmp_path_factory):
    """Start the selected cases, a few at once, each on a platform of its own; return their futures by name."""
    chosen = [item.callspec.params["name"] for item in request.session.items if "outcomes" in item.fixturenames]
    folder = tmp_path_factory.mktemp("hai")

    def run(number, name):
        with HaiEnvironment(folder / str(number)) as environment:
            case = CASES[name]
            job = {key: value for key, value in case.job.items() if key not in ("volumes", "output_dir")}
            end = environment.folder / "end"
            launcher = environment.launch(
                held(job, case.last, f"until [ -e {end} ]; do sleep 0.1; done") if case.last else job
            )
            if case.last:
                until(lambda: succeeded(launcher, case.before_last))
                end.touch()
            check(case, launcher)
            until(environment.gone)

    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        yield {name: pool.submit(run, number, name) for number, name in enumerate(chosen)}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", CASES, ids=lambda name: name.replace(" ", "_"))
def test_a_case(name, outcomes):
    outcomes[name].result()
