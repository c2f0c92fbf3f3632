"""Which runs count, and what the replicas of a role should request by their use."""

import msgspec
import pytest

from tests.unit.cli.statuses import status
from tfsteps import spec
from tfsteps.runs.events import State
from tfsteps.runs.usage import UsageSummary
from tfsteps.settings.parse import parse
from tfsteps.tuning.recommendation import RecordedAttempt, Rule, Standing, good_runs, range_of, tune

GIB, MIB = 1 << 30, 1 << 20
JOB = """
name: mnist
image: mnist:1
command: [python, train.py]
resources: {resources}
roles: {roles}
"""


def job(resources="{cpu: 4, memory: 8Gi}", roles="{worker: {replicas: 2}}", more=""):
    return spec.parse(JOB.format(resources=resources, roles=roles) + more)


def run(number, cpu=1.0, memory=GIB, *, seconds=110.0, of=None, role="worker", **more):
    """Return a run whose two workers ran for 59 s each."""
    usage = {role: UsageSummary(seconds=seconds, cpu_peak=cpu, memory_peak=memory)} if cpu is not None else {}
    run_status = status(run=f"r{number}", **{"state": State.SUCCEEDED, "usage": usage, **more})
    run_status.created = 1e9 + number
    return RecordedAttempt(run_status, of or job())


def killed(number, limit=None, **more):
    """Return a run in which worker 1 was killed for its memory."""
    attempt = run(number, **{"state": State.FAILED, **more})
    incarnation = attempt.status.replicas[1].incarnations[0]
    incarnation.reason, incarnation.memory_limit = "OOMKilled", limit
    return attempt


def tuned(attempts, of=None, rule=None, ignored=()):
    return tune(of or job(), attempts, rule or Rule(), pipeline="mnist", task="train", ignored=ignored)


def amounts(tuning, role="worker"):
    """Return what is recommended, as job files have it."""
    return [range_of(advice.resource, advice.new) for advice in tuning.advices if advice.role == role]


def test_the_largest_use_of_ten_runs_and_headroom():
    runs = [run(number, 1.0 + number / 10, GIB + number * MIB) for number in range(10)]
    tuning = tuned(runs)
    assert tuning.good == 10
    assert amounts(tuning) == ["3", "1536Mi"], "1.9 cores and 1033 MiB"
    assert [*tuning.advices[0].used][:2] == ["r9", "r8"], "the newest first"


def test_nine_runs_are_not_enough():
    tuning = tuned([run(number) for number in range(9)])
    assert tuning.off == "9 good runs of the last 30 days, and 10 are needed"
    assert amounts(tuning) == ["-", "-"]
    assert tuning.advices[0].most == 1.0, "what they used is shown"


NOT_GOOD = [
    (run(9, state=State.FAILED), Standing.NOT_GOOD, "failed"),
    (run(9, state=State.UNKNOWN), Standing.NOT_GOOD, "has not ended: unknown"),
    (run(9, state=State.RUNNING), Standing.NOT_GOOD, "has not ended: running"),
    (run(9, cpu=None), Standing.NOT_GOOD, "the use of worker is not known"),
    (run(9, role="ps"), Standing.NOT_GOOD, "the use of worker is not known"),
    (run(9, memory=None), Standing.NOT_GOOD, "the use of worker is not known"),
    (run(9, seconds=30.0), Standing.LOWER_BOUND, "25% of the time of worker was sampled"),
    (RecordedAttempt(run(9).status, None), Standing.NOT_GOOD, "its job is not recorded"),
    (run(9, of=job(roles="{worker: {replicas: 3}}")), Standing.NOT_GOOD, "another job: replicas of worker"),
    (run(9, of=job(roles="{worker: {}, ps: {}, chief: {}}")), Standing.NOT_GOOD, "another job: roles"),
    (run(9, of=job(more="args: [x]\nenv: {A: b}")), Standing.NOT_GOOD, "another job: args of worker, env of worker"),
]  # fmt: skip


@pytest.mark.parametrize(("attempt", "standing", "reason"), NOT_GOOD)
def test_what_is_not_a_good_run_does_not_count_among_the_ten(attempt, standing, reason):
    tuning = tuned([run(number) for number in range(9)] + [attempt])
    assert tuning.good == 9
    assert (tuning.runs[0].standing, tuning.runs[0].reason) == (standing, reason)
    assert amounts(tuning) == ["-", "-"]


def test_a_replica_whose_end_was_not_seen_ran_to_the_end_of_the_job():
    runs = [run(number) for number in range(10)]
    for attempt in runs:
        attempt.status.replicas[1].incarnations[0].ended = None
    assert tuned(runs).good == 10
    for attempt in runs:
        attempt.status.ended += 120.0
    assert tuned(runs).good == 0


def test_resources_labels_and_ignored_fields_may_differ():
    other = job("{cpu: 1, memory: 1Gi}", more="labels: {run-id: x}\nkeep_for: 1d\nargs: [x]")
    assert tuned([run(number, of=other) for number in range(10)]).good == 0
    assert tuned([run(number, of=other) for number in range(10)], ignored=["args"]).good == 10


def test_runs_may_have_what_the_platform_settings_add():
    of, launched = job(), job(more="env: {PROXY: 'http://proxy'}")
    runs = [run(number, of=launched if number % 2 else of) for number in range(10)]
    assert tuned(runs, of).good == 5
    options = {"pipeline": "mnist", "task": "train", "ignored": ()}
    assert tune(of, runs, Rule(), launched=launched, **options).good == 10
    assert tune(job(more="args: [x]"), runs, Rule(), launched=job(more="args: [y]"), **options).good == 0


def test_the_largest_use_of_all_attempts_of_a_run_counts():
    runs = [run(number) for number in range(9)]
    assert amounts(tuned([*runs, run(8, 2.5, 5 * GIB, attempt=2), run(8, attempt=3)])) == ["3500m", "7Gi"]


def test_a_lower_bound_raises_and_never_lowers():
    good = [run(number) for number in range(10)]
    assert amounts(tuned([*good, run(10, 0.1, MIB, seconds=1.0)])) == amounts(tuned(good))
    assert amounts(tuned([*good, run(10, 5.0, 10 * GIB, seconds=1.0)])) == ["7", "14Gi"]


def test_never_below_a_limit_at_which_memory_ran_out():
    good = [run(number) for number in range(10)]
    assert amounts(tuned([*good, killed(10, 4 * GIB)]))[1] == "6Gi", "5.6 GiB"
    assert amounts(tuned([*good, killed(10)]))[1] == "12Gi", "the limit of its job, 8 GiB"
    retried = killed(10, 4 * GIB, state=State.SUCCEEDED)
    assert amounts(tuned([*good, retried]))[1] == "6Gi", "a replica that succeeded when restarted"
    other = killed(10, 4 * GIB, of=job(more="args: [x]"))
    assert amounts(tuned([*good, other]))[1] == "1536Mi", "another job"
    reasons = tuned([*good, killed(10, 4 * GIB)]).advices[1].reasons
    assert reasons[0] == "out of memory at 4.0 GiB in r10"


def test_a_cpu_use_at_the_limit_may_have_been_held_there():
    good = [run(number) for number in range(10)]
    held = run(10, 1.92, of=job("{cpu: 2, memory: 8Gi}"), state=State.FAILED)
    tuning = tuned([*good, held])
    assert amounts(tuning)[0] == "3", "2.8 cores"
    assert tuning.advices[0].reasons[0] == "held at its limit of 2 in r10"


SHAPES = [
    ("{cpu: 2~4, memory: 4Gi~16Gi}", ["700m~1400m", "384Mi~1536Mi"]),
    ("{cpu: 4, limits: {memory: 8Gi}}", ["1400m", "1536Mi"]),
    ("{}", ["1400m", "1536Mi"]),
    ("{memory: 8Gi, shared_memory: 4Gi}", ["1400m", "6Gi"]),
]  # fmt: skip


@pytest.mark.parametrize(("resources", "recommended"), SHAPES)
def test_ranges_keep_their_proportion(resources, recommended):
    of = job(resources)
    assert amounts(tuned([run(number, 1.0, of=of) for number in range(10)], of)) == recommended


def test_a_missing_request_is_not_added_to_a_limit():
    of = job("{limits: {memory: 8Gi}}")
    memory = tuned([run(number, of=of) for number in range(10)], of).advices[1]
    assert (memory.new.request, memory.new.limit) == (None, 1.5 * GIB)


def test_caps_of_the_platform_and_its_rule():
    document = "limits: {cpu: 8, memory: 1280Mi}\ntuning: {headroom: 1, runs: 3}\n"
    project = "projects: {vision: {namespaces: [team], limits: {cpu: 1}, tuning: {runs: 2}}}"
    layers = parse(document + project, "settings.yaml").layers("team")
    tuning = tuned([run(number) for number in range(2)], rule=Rule.of(layers))
    assert (tuning.rule.headroom, tuning.rule.runs) == (1, 2)
    assert amounts(tuning) == ["1", "1280Mi"]
    assert tuning.advices[0].reasons[-1] == "at most 1 by projects.vision.limits.cpu"
    assert Rule.of(layers, headroom=0.0, runs=5).runs == 5
    over = tuned([run(number, cpu=3.0) for number in range(2)], rule=Rule.of(layers))
    assert "which is not enough" in over.advices[0].reasons[-1]


OFF = [("'true'", "'true'"), ("'1'", "'1'"), ("{secret: s, key: k}", "not known: it is from another object")]


@pytest.mark.parametrize(("value", "shown"), OFF)
def test_a_variable_switches_it_off(value, shown):
    off = job(more=f"env: {{NO_RESOURCE_CHECK: {value}}}")
    runs = [run(number) for number in range(10)]
    for tuning in (tuned(runs, off), tuned([*runs, run(10, of=off)])):
        assert "NO_RESOURCE_CHECK of the worker of the " in tuning.off
        assert shown in tuning.off
        assert not tuning.advices
    assert not tuned([run(number, of=off) for number in range(10)], job(more="env: {A_NO_RESOURCE_CHECK: 'true'}"),
                     ignored=["env"]).advices  # fmt: skip
    on = job(more="env: {NO_RESOURCE_CHECK: 'false', MY_NO_RESOURCE_CHECK: 'true'}")
    assert not tuned([run(number, of=on) for number in range(10)], on).off


def test_roles_that_share_the_resources_get_the_largest_of_theirs():
    of = job(roles="{chief: {}, worker: {replicas: 2}, ps: {resources: {cpu: 2}}}")
    runs = [run(number, of=of) for number in range(10)]
    for attempt in runs:
        attempt.status.usage |= {
            "chief": UsageSummary(seconds=60.0, cpu_peak=2.0, memory_peak=100 * MIB),
            "ps": UsageSummary(seconds=60.0, cpu_peak=0.1, memory_peak=100 * MIB),
        }
        workers = attempt.status.replicas
        attempt.status.replicas = [
            *workers,
            msgspec.structs.replace(workers[0], role="chief"),
            msgspec.structs.replace(workers[0], role="ps"),
        ]
    tuning = tuned(runs, of)
    assert amounts(tuning, "chief") == amounts(tuning, "worker") == ["3", "1536Mi"]
    assert amounts(tuning, "ps") == ["200m", "192Mi"]
    assert tuning.advices[2].reasons[-1] == "of chief, which has the same `resources`"


def test_one_run_is_singular():
    assert [good_runs(count) for count in (0, 1, 2)] == ["0 good runs", "1 good run", "2 good runs"]
