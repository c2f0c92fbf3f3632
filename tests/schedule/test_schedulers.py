"""Schedules on the real schedulers: Argo's controller, and the CronJob controller with our image in the pod."""

import datetime as dt
import itertools
import time

import pytest
import yaml

from tests.preflight.conftest import namespace_of
from tests.support.waiting import until
from tests.unit.cli.command import tfsteps
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.kube.resource import PODS, Resource

pytestmark = pytest.mark.cluster

CRONS = Resource("argoproj.io/v1alpha1", "cronworkflows", "CronWorkflow")
CRON_JOBS = Resource("batch/v1", "cronjobs", "CronJob")
JOBS = Resource("batch/v1", "jobs", "Job")
SUBMITTED = {  # name: what it runs, and when
    "overlap": ("sleep 14", ["--every", "5s"]),
    "between": ("true", {"cron": "* * * * *", "start": "2026-01-01", "end": "2099-01-01"}),
    "early": ("true", {"cron": "* * * * *", "start": "2099-01-01"}),
    "late": ("true", {"cron": "* * * * *", "end": "2026-01-01"}),
    "job": ("sleep 3", ["--cron", "* * * * *", "--scheduler", "cronjob"]),
    "bad": ("exit 3", ["--cron", "* * * * *", "--scheduler", "cronjob"]),
}
MINUTE = 60.0


def workflow(folder, name, script):
    """Write a Workflow of one step and return its file."""
    container = {
        "image": "docker.io/library/busybox:latest",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
    }
    spec = {"entrypoint": "main", "templates": [{"name": "main", "container": container}]}
    body = {"apiVersion": WORKFLOWS.api, "kind": "Workflow", "metadata": {"generateName": f"{name}-"}, "spec": spec}
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(body))
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("workflows")


@pytest.fixture(scope="module")
def since(place, image, folder):
    """Submit everything at once; return when."""
    for name, (script, when) in SUBMITTED.items():
        options = when
        if isinstance(when, dict):
            (folder / "schedule.yaml").write_text(yaml.safe_dump(when))
            options = ["--schedule", folder / "schedule.yaml"]
        code, out, err = tfsteps(
            "submit", workflow(folder, name, script), "--namespace", place, "--image", image, *options
        )
        assert (code, f"{name} created in {place}" in out) == (0, True), err
        assert ("next runs" in err) == (name != "late")
    return time.time()


def of_cron(cluster, place, name):
    """Return the Workflows of a CronWorkflow."""
    workflows = cluster.api.list(WORKFLOWS, place, labelSelector=f"workflows.argoproj.io/cron-workflow={name}")
    return workflows["items"]


def of_job(cluster, place, name):
    """Return the Jobs of a CronJob, and the Workflows that each owns, by its name."""
    jobs = cluster.api.list(JOBS, place, labelSelector=f"app.kubernetes.io/name={name}")["items"]
    workflows = cluster.api.list(WORKFLOWS, place)["items"]
    owned = {
        job["metadata"]["name"]: [
            item
            for item in workflows
            if job["metadata"]["uid"] in [owner["uid"] for owner in item["metadata"].get("ownerReferences", [])]
        ]
        for job in jobs
    }
    return jobs, owned


def condition(job):
    """Return the type and reason of the condition that ended a Job."""
    conditions = [
        item for item in job.get("status", {}).get("conditions", []) if item["type"] in {"Complete", "Failed"}
    ]
    return (conditions[0]["type"], conditions[0]["reason"]) if conditions else None


def at(text):
    return dt.datetime.fromisoformat(text).timestamp()


def test_a_cron_workflow_fires_and_its_runs_do_not_overlap(cluster, place, since):
    def ended():
        statuses = [item.get("status", {}) for item in of_cron(cluster, place, "overlap")]
        statuses = [item for item in statuses if item.get("startedAt")]  # one may be only just made
        return [item for item in statuses if item.get("phase") == "Succeeded"][1:] and statuses

    statuses = sorted(until(ended, 2 * MINUTE), key=lambda status: status["startedAt"])
    incarnations = [(at(item["startedAt"]), at(item["finishedAt"] or "2099-01-01T00:00:00Z")) for item in statuses]
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(incarnations)), incarnations
    assert incarnations[1][0] - incarnations[0][0] >= 14, "those due in between were left out"


def schedules(place, *args):
    code, out, err = tfsteps("schedules", *args, "--engine", "argo", "--namespace", place)
    assert code == 0, err
    return out


def test_a_manual_run_removes_earlier_ones_and_none_of_a_schedule(cluster, place, folder, since):
    file = workflow(folder, "overlap", "sleep 300")
    runs = until(lambda: of_cron(cluster, place, "overlap"), MINUTE)
    scheduled = max((run["metadata"] for run in runs), key=lambda metadata: metadata["creationTimestamp"])
    for name in ("first", "second"):
        code, _, err = tfsteps("submit", file, "--namespace", place, "--name", name, "--replace")
        assert code == 0, err
    names = [item["metadata"]["name"] for item in cluster.api.list(WORKFLOWS, place)["items"]]
    assert ("second" in names, "first" in names, scheduled["name"] in names) == (True, False, True)
    cluster.api.delete(WORKFLOWS, place, "second", cluster.api.get(WORKFLOWS, place, "second")["metadata"]["uid"])
    schedules(place, "pause", "overlap")  # it would start pods until the last test has ended


def test_start_and_end_hold(cluster, place, since):
    until(lambda: of_cron(cluster, place, "between"), 1.5 * MINUTE)
    until(lambda: cluster.api.get(CRONS, place, "late").get("status", {}).get("phase") == "Stopped")
    assert of_cron(cluster, place, "late") == of_cron(cluster, place, "early") == []
    conditions = cluster.api.get(CRONS, place, "early").get("status", {}).get("conditions") or []
    assert [item for item in conditions if item["type"].endswith("Error")] == [], "it was not due; it did not fail"


def test_a_cron_job_submits_a_workflow_and_ends_as_it_does(cluster, place, since):
    def ended():
        jobs, owned = of_job(cluster, place, "job")
        return [(job, owned[job["metadata"]["name"]]) for job in jobs if condition(job)]

    *_, (job, workflows) = until(ended, 2 * MINUTE)
    assert condition(job) == ("Complete", "CompletionsReached")
    assert [(item["metadata"]["name"], item["status"]["phase"]) for item in workflows] == [
        (job["metadata"]["name"], "Succeeded")
    ]


def test_a_workflow_that_fails_fails_the_job_at_once(cluster, place, since):
    def ended():
        jobs, _ = of_job(cluster, place, "bad")
        return [job for job in jobs if condition(job)]

    *_, job = until(ended, 2 * MINUTE)  # the newest: of those that failed, one is kept
    assert condition(job) == ("Failed", "PodFailurePolicy")
    pods = cluster.api.list(PODS, place, labelSelector=f"batch.kubernetes.io/job-name={job['metadata']['name']}")
    assert len(pods["items"]) == 1, "not the submitter's fault: it was not tried again"
    cluster.api.patch(CRON_JOBS, place, "bad", {"spec": {"suspend": True}})


def test_a_workflow_goes_with_its_job(cluster, place, since):
    def owner():
        jobs, owned = of_job(cluster, place, "job")
        return [(job, owned[job["metadata"]["name"]]) for job in jobs if owned[job["metadata"]["name"]]]

    (job, _), *_ = until(owner, 2 * MINUTE)
    cluster.api.delete(JOBS, place, job["metadata"]["name"], job["metadata"]["uid"])
    names = lambda: [item["metadata"]["name"] for item in cluster.api.list(WORKFLOWS, place)["items"]]  # noqa: E731
    until(lambda: job["metadata"]["name"] not in names())
    cluster.api.patch(CRON_JOBS, place, "job", {"spec": {"suspend": True}})


def test_a_schedule_is_updated_only_with_consent(cluster, place, folder, since):
    file = workflow(folder, "early", "true")
    code, out, err = tfsteps("submit", file, "--namespace", place, "--cron", "5 4 * * *")
    assert (code, out) == (2, "")
    assert "+  - 5 4 * * *" in err
    assert "nothing was changed: without a terminal, add --yes" in err
    schedules(place, "pause", "early")
    assert tfsteps("submit", file, "--namespace", place, "--cron", "5 4 * * *", "--yes")[0] == 0
    spec = cluster.api.get(CRONS, place, "early")["spec"]
    assert (spec["schedules"], spec["suspend"], "when" in spec) == (["5 4 * * *"], True, False)
    assert "next: 20" in schedules(place, "resume", "early")


def test_the_records_have_each_date_and_runs_by_hand_are_kept_apart(cluster, place, folder, since):
    def succeeded():
        rows = [line.split() for line in schedules(place, "show", "between").splitlines()]
        return [row for row in rows if row and row[-1] == "succeeded" and row[0] != "manual"]

    planned = until(succeeded, 2 * MINUTE)[0][1]
    assert planned.endswith(":00Z"), "the date, not the time at which it was sent"
    by_hand = schedules(place, "run-now", "between").split()[2]
    assert any(
        line.startswith("manual") and by_hand in line for line in schedules(place, "show", "between").splitlines()
    )
    assert by_hand not in [item["metadata"]["name"] for item in of_cron(cluster, place, "between")]
    assert "CronJob" in schedules(place)


def test_nothing_is_created_where_one_part_is_refused(cluster, place, image, folder, since):
    file = workflow(folder, "half", "true")
    text = file.read_text().replace("busybox", "BUSY box")
    file.write_text(text)
    cluster.kubectl("create", "configmap", "half", "-n", place)
    options = ["--namespace", place, "--every", "1h", "--scheduler", "cronjob", "--image", image]
    code, _, err = tfsteps("submit", file, *options)
    assert (code, f"ConfigMap half already exists in {place}" in err) == (2, True)
    assert "half" not in cluster.kubectl("get", "serviceaccounts,roles,cronjobs", "-n", place, "-o", "name")


@pytest.mark.parametrize("interval", ["60s", "1d"])
def test_intervals_are_accepted(cluster, place, image, folder, interval):
    file = workflow(folder, "interval", "true")
    options = ["--namespace", place, "--every", interval, "--dry-run"]
    for more in ([], ["--scheduler", "cronjob", "--service-account", "default"]):
        code, out, err = tfsteps("submit", file, *options, *more)
        assert code == 0, err
        cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=out)


def test_the_pods_that_submit_keep_the_strictest_rules(cluster, image, folder):
    with namespace_of(cluster, **{"pod-security.kubernetes.io/enforce": "restricted"}) as strict:
        file = workflow(folder, "strict", "true")
        options = ["--namespace", strict, "--every", "1h", "--scheduler", "cronjob", "--service-account", "default"]
        *_, cron_job = yaml.safe_load_all(tfsteps("submit", file, "--dry-run", *options)[1])
        template = cron_job["spec"]["jobTemplate"]["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "submit", "namespace": strict}, **template}
        cluster.api.create(PODS, strict, pod, dry_run=True)


@pytest.mark.parametrize(("script", "code", "phase"), [("true", 0, "Succeeded"), ("exit 3", 10, "Failed")])
def test_submit_waits_for_the_end(place, folder, script, code, phase):
    done = tfsteps("submit", workflow(folder, "once", script), "--namespace", place, "--wait")
    assert (done[0], phase in done[1].splitlines()[-1]) == (code, True), done
