"""Which job system is chosen where none is named: the requests, and what follows from the answers."""

import types

import pytest

from tests.unit.cli.command import tfsteps
from tests.unit.cli.jobs_on_cluster import tfjob
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.kube import access, client, http_client
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.identity import Identity
from tfsteps.steps import job_step
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.preflight.discovery import Choice, choose

CANDIDATES = registry.discoverable()
BATCH = {"batch/v1": ["jobs", "jobs/status", "cronjobs"]}
KUBEFLOW = {"kubeflow.org/v1": ["tfjobs", "tfjobs/status", "pytorchjobs"]}
NOTEBOOKS = {"kubeflow.org/v1": ["notebooks", "pytorchjobs"], "kubeflow.org/v1beta1": ["experiments", "tfjobs"]}
JOBSET = {"jobset.x-k8s.io/v1alpha2": ["jobsets"]}
TRAINJOB = {"trainer.kubeflow.org/v1alpha1": ["trainjobs"]}
T9K = {"batch.tensorstack.dev/v1beta1": ["tensorflowtrainingjobs"]}
OLD = {"tensorflow.org/v1alpha1": ["tfjobs"]}
NOTHING_ELSE = "none of tfjobs.kubeflow.org, tensorflowtrainingjobs.batch.tensorstack.dev, jobsets.jobset.x-k8s.io"


ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
KUBEFLOW_26_03 = BATCH | JOBSET | TRAINJOB | {"kubeflow.org/v1": ["notebooks"]}
TASK = Identity(run="r", task="t").selector()


def cluster(served, broken=types.MappingProxyType({}), denied=(), holders=()):
    """Return a script that answers as a cluster that serves `served`: resources by group and version.

    Objects of the resources `denied` may not be created; those of `holders` have a job of the task.
    """

    def permitted(asked):
        attributes = asked.body["spec"]["resourceAttributes"]
        assert (attributes["verb"], attributes["namespace"]) == ("create", "ns")
        return broken.get(ACCESS) or Answer(201, {"status": {"allowed": attributes["resource"] not in denied}})

    def jobs(asked):
        assert asked.query == {"labelSelector": ",".join(f"{key}={value}" for key, value in TASK.items())}
        plural = asked.path.rpartition("/")[2]
        items = [{"metadata": {"name": "a", "uid": "u"}}] if plural in holders else []
        return broken.get(plural) or Answer(200, {"metadata": {}, "items": items})

    def script(asked):
        if asked.path == ACCESS:
            return permitted(asked)
        if "/namespaces/ns/" in asked.path:
            return jobs(asked)
        path = asked.path.removeprefix("/apis").lstrip("/")
        if path in broken:
            return broken[path]
        if not path:
            groups = {}
            for item in served:
                groups.setdefault(item.partition("/")[0], []).append({"groupVersion": item, "version": item[-2:]})
            listed = [{"name": name, "versions": versions} for name, versions in groups.items()]
            return Answer(body={"kind": "APIGroupList", "groups": listed})
        if path in served:
            return Answer(body={"kind": "APIResourceList", "resources": [{"name": name} for name in served[path]]})
        return refusal(404, "NotFound")

    return script


def chosen(served, names=CANDIDATES, broken=types.MappingProxyType({}), task=None, **permissions):
    """Return what is chosen, and the paths that were asked for."""
    with serve(cluster(served, broken, **permissions)) as server:
        choice = choose(Api(server.access(), patience=0), "ns", {name: CANDIDATES[name] for name in names}, task)
        return choice, [asked.path for asked in server.asked]


@pytest.mark.parametrize(
    ("served", "expected", "because"),
    [
        (BATCH | KUBEFLOW | JOBSET | T9K | TRAINJOB | OLD, "kubeflow", "the cluster serves tfjobs.kubeflow.org"),
        (BATCH | JOBSET | T9K, "t9k", "the cluster serves tensorflowtrainingjobs.batch.tensorstack.dev"),
        (BATCH | OLD | JOBSET, "jobset", "the cluster serves jobsets.jobset.x-k8s.io"),
        (BATCH | OLD, "tfjob-v1alpha1", "the cluster serves tfjobs.tensorflow.org"),
        (BATCH, "jobs", f"the cluster serves jobs.batch and {NOTHING_ELSE}, tfjobs.tensorflow.org"),
        (BATCH | NOTEBOOKS | JOBSET, "jobset", "the cluster serves jobsets.jobset.x-k8s.io"),
        (BATCH | NOTEBOOKS | TRAINJOB, "jobs", f"the cluster serves jobs.batch and {NOTHING_ELSE}"),
    ],
)
def test_the_best_that_is_served(served, expected, because):
    choice, _ = chosen(served)
    assert choice.system == expected
    assert choice.reason.startswith(because)


def test_only_kinds_of_this_version_are_chosen():
    assert chosen(BATCH | JOBSET | T9K, ["kubeflow", "jobs"])[0] == Choice(
        "jobs", "the cluster serves jobs.batch and none of tfjobs.kubeflow.org"
    )


def test_discovery_needs_few_requests():
    assert chosen(BATCH | KUBEFLOW | JOBSET)[1] == ["/apis", "/apis/kubeflow.org/v1", ACCESS]
    resources = ["/apis/kubeflow.org/v1", "/apis/jobset.x-k8s.io/v1alpha2"]
    assert chosen(BATCH | NOTEBOOKS | JOBSET)[1] == ["/apis", *resources, ACCESS]


# --- what the launcher may create

NEITHER = "none of tfjobs.kubeflow.org, tensorflowtrainingjobs.batch.tensorstack.dev, tfjobs.tensorflow.org"
NOT_PERMITTED = "it is not permitted to create {} (`tfsteps role {}` prints a Role for it)"


@pytest.mark.parametrize(
    ("served", "denied", "expected", "because"),
    [
        (KUBEFLOW_26_03, (), "jobset", "the cluster serves jobsets.jobset.x-k8s.io"),
        (
            KUBEFLOW_26_03,
            ("jobsets",),
            "jobs",
            f"the cluster serves jobs.batch and {NEITHER}; {NOT_PERMITTED.format('jobsets.jobset.x-k8s.io', 'jobset')}",
        ),
        (
            KUBEFLOW_26_03 | KUBEFLOW,
            ("tfjobs",),
            "jobset",
            f"the cluster serves jobsets.jobset.x-k8s.io; {NOT_PERMITTED.format('tfjobs.kubeflow.org', 'kubeflow')}",
        ),
        (
            KUBEFLOW_26_03,
            ("jobsets", "jobs"),
            "jobset",
            "the cluster serves jobsets.jobset.x-k8s.io, jobs.batch, and none may be created in namespace ns",
        ),
    ],
)
def test_the_best_that_may_be_created(served, denied, expected, because):
    assert chosen(served, denied=denied)[0] == Choice(expected, because)


@pytest.mark.parametrize(
    ("review", "why"),
    [
        (refusal(403, "Forbidden", "you may not ask"), "you may not ask"),
        (refusal(503, "ServiceUnavailable", "half"), "half"),
        (Answer(201, {"status": {"allowed": False, "evaluationError": "a webhook is down"}}), "a webhook is down"),
        (Answer(201, {"status": {"allowed": "no"}}), "the review has no answer"),
    ],
)
def test_a_permission_that_is_not_known_is_not_denied(review, why):
    choice, _ = chosen(KUBEFLOW_26_03, broken={ACCESS: review})
    sentence = f"the cluster serves jobsets.jobset.x-k8s.io; whether it may be created is not known ({why})"
    assert choice == Choice("jobset", sentence)


def test_a_permission_is_asked_for_again():
    answers = [refusal(503, "ServiceUnavailable", "half")]

    def script(asked):
        return answers.pop() if answers and asked.path == ACCESS else cluster(KUBEFLOW_26_03, denied=["jobsets"])(asked)

    with serve(script) as server:
        assert choose(Api(server.access()), "ns", CANDIDATES).system == "jobs"
    assert not answers


# --- a launcher that was restarted


@pytest.mark.parametrize(
    ("holders", "expected"),
    [((), "jobset"), (("jobs",), "jobs"), (("jobsets",), "jobset"), (("jobs", "jobsets"), "jobset")],
)
def test_a_task_stays_on_the_system_that_has_its_job(holders, expected):
    """The permission for JobSets was granted after the first launcher had chosen Jobs."""
    choice, paths = chosen(KUBEFLOW_26_03, task=TASK, holders=holders)
    assert choice.system == expected
    if expected == "jobs":
        assert choice.reason == "jobs.batch has a job of this task"
    assert "/apis/batch/v1/namespaces/ns/jobs" in paths


@pytest.mark.parametrize("invisible", [refusal(403, "Forbidden"), Answer(404, b"404 page not found")])
def test_a_system_that_may_not_be_listed_has_no_job(invisible):
    assert chosen(KUBEFLOW_26_03, task=TASK, broken={"jobs": invisible})[0].system == "jobset"


def test_whether_there_is_a_job_must_be_known():
    with pytest.raises(ApiError, match=r"has a job on another job system is not known \(half\); name a job system"):
        chosen(KUBEFLOW_26_03, task=TASK, broken={"jobs": refusal(503, "", "half")})


@pytest.mark.parametrize(
    ("broken", "because"),
    [
        ({"": refusal(403, "Forbidden", "you may not")}, "the cluster does not say which APIs it serves (you may not)"),
        (
            {"": Answer(200, {"groups": 3})},
            "the cluster does not say which APIs it serves (GET /apis: the answer is not",
        ),
        ({"": Answer(200, b"<html>")}, "the cluster does not say which APIs it serves (GET /apis: the answer is not"),
        ({"": Answer(200, {})}, "the cluster does not say which APIs"),
        ({"kubeflow.org/v1": refusal(503, "ServiceUnavailable", "half")}, "the cluster does not say which APIs"),
        (
            {"jobset.x-k8s.io/v1alpha2": refusal(503, "", "half")},
            "the cluster does not say which APIs it serves (half)",
        ),
    ],
)
def test_a_cluster_that_does_not_answer_is_no_choice(broken, because, monkeypatch):
    monkeypatch.setattr(http_client, "SETTLE_SECONDS", 0.3)
    served = BATCH | JOBSET | (KUBEFLOW if "kubeflow.org/v1" in broken else {})
    with pytest.raises(ApiError) as caught:
        chosen(served, broken=broken)
    assert str(caught.value).startswith(because)
    assert str(caught.value).endswith("; name a job system")


@pytest.mark.parametrize("refused", [refusal(403, "Forbidden"), refusal(404, "NotFound")])
@pytest.mark.parametrize("path", ["", "kubeflow.org/v1"])
def test_one_refusal_changes_no_choice(path, refused):
    """A restarted launcher would create a second job, on another system."""
    answers = {path: refused}

    def script(asked):
        first = answers.pop(asked.path.removeprefix("/apis").lstrip("/"), None)
        return first or cluster(BATCH | KUBEFLOW)(asked)

    with serve(script) as server:
        assert choose(Api(server.access()), "ns", CANDIDATES).system == "kubeflow"
    assert not answers


def test_an_api_that_goes_away_meanwhile_is_not_there(monkeypatch):
    monkeypatch.setattr(http_client, "SETTLE_SECONDS", 0.3)
    assert chosen(BATCH | KUBEFLOW, broken={"kubeflow.org/v1": refusal(404, "NotFound")})[0].system == "jobs"


def test_the_sentence():
    sentence = Choice("jobset", "the cluster serves jobsets.jobset.x-k8s.io").sentence("--system NAME")
    assert sentence == "jobset: the cluster serves jobsets.jobset.x-k8s.io; --system NAME overrides"


def test_operators_for_tensorflow_come_first_and_plain_jobs_last():
    assert list(CANDIDATES) == ["kubeflow", "t9k", "jobset", "tfjob-v1alpha1", "jobs"]


# --- in a step's pod


@pytest.mark.parametrize("served", [BATCH | KUBEFLOW, BATCH])
def test_a_step_in_a_pod_chooses_the_served_system_and_prints_it(served, monkeypatch, capsys):
    with serve(cluster(served)) as server:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setattr(access, "find", lambda _context="": server.access())
        system = job_step.find_system("auto")
    expected = "kubeflow" if KUBEFLOW.items() <= served.items() else "jobs"
    assert system.name == expected
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"job system {expected}: the cluster serves ")
    assert line.endswith("; the input `system` overrides")


def test_a_step_that_cannot_choose_creates_nothing(monkeypatch):
    def nothing(_context=""):
        raise AccessError("there is no token")

    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(access, "find", nothing)
    with pytest.raises(LaunchError, match="no job system was chosen: there is no token"):
        job_step.find_system("auto")
    with serve([refusal(503, "", "half")]) as server:
        monkeypatch.setattr(access, "find", lambda _context="": server.access())
        monkeypatch.setattr(client.Api.__init__, "__defaults__", (0, 5))
        with pytest.raises(
            LaunchError, match=r"APIs it serves \(half\); name a job system in the input `system`"
        ) as caught:
            job_step.find_system("auto")
    assert caught.value.retryable


def test_outside_of_a_pod_nothing_is_asked(monkeypatch, capsys):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(access, "find", None)
    assert (job_step.find_system("auto").name, capsys.readouterr().out) == ("local", "")


# --- on the command line

JOB = "{name: mnist, image: acme/mnist:1, command: [python, train.py], roles: {worker: {}}}"
NOTHING_RUNS = Answer(200, {"metadata": {}, "items": []})


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Return a function that runs `tfsteps run` of a small job against a cluster, and returns what it printed."""

    def go(served, *options, tfjobs=()):
        def script(asked):
            if asked.path == ACCESS:
                return Answer(201, {"status": {"allowed": True}})
            if asked.method == "GET" and "kubeflow.org/v1/" in asked.path and asked.path.endswith("/tfjobs"):
                return Answer(200, {"metadata": {}, "items": list(tfjobs)})
            if asked.method == "GET" and "namespaces" in asked.path:
                return NOTHING_RUNS if "labelSelector" in asked.query else refusal(404, "NotFound")
            return cluster(served)(asked) if asked.method == "GET" else refusal(403, "Forbidden", "not you")

        with serve(script) as server:
            monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
            monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path))
            monkeypatch.setattr(access, "find", lambda _context="": server.access())
            code, out, err = tfsteps("run", "-", *options, input=JOB)
            return (
                code,
                out,
                err,
                [asked.path for asked in server.asked if asked.method == "POST" and asked.path != ACCESS],
            )

    return go


@pytest.mark.parametrize("options", [["--on", "kubernetes"], ["--system", "auto"]])
def test_run_on_a_cluster_takes_what_fits(run, options):
    code, _, err, posted = run(BATCH, *options)
    assert code == ExitCode.USAGE
    assert err.startswith("job system jobs: the cluster serves jobs.batch and none of tfjobs.kubeflow.org")
    assert "; --system NAME overrides\n" in err
    assert posted[-1] == "/apis/batch/v1/namespaces/ns/jobs"


def test_a_system_that_is_named_is_not_asked_for(run):
    _, _, err, posted = run(BATCH, "--system", "kubeflow")
    assert "job system" not in err
    assert posted[-1] == "/apis/kubeflow.org/v1/namespaces/ns/tfjobs"


def test_a_job_of_another_system_is_not_adopted(run):
    running = tfjob("r", ("Running", "True", 3), namespace="ns")
    for options in (["--system", "jobs"], ["--on", "kubernetes"]):
        code, _, err, posted = run(BATCH, *options, "--run-id", "r", "--adopt", tfjobs=[running])
        assert code == ExitCode.USAGE
        assert err.endswith("run r: task mnist runs on kubeflow, not on jobs; --system kubeflow adopts it\n")
        assert not posted


def test_a_dry_run_asks_nothing(run):
    code, out, err, _ = run(BATCH, "--on", "kubernetes", "--dry-run")
    assert (code, "kind: TFJob" in out) == (0, True)
    assert err.startswith("job system kubeflow: a dry run asks no cluster what it serves; --system NAME overrides\n")


@pytest.mark.parametrize(
    "options",
    [
        ("--on", "local", "--system", "kubeflow"),
        ("--on", "local", "--system", "auto"),
        ("--on", "kubernetes", "--system", "local"),
    ],
)
def test_options_that_contradict_one_another(run, options):
    code, _, err, _ = run(BATCH, *options)
    assert (code, err) == (ExitCode.USAGE, f"error: --system {options[3]} is not --on {options[1]}; leave one out\n")
