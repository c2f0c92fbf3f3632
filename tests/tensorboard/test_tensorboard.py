"""TensorBoards of jobs on a real cluster: seen in a browser, idle, started again, and harmless when they fail."""

import contextlib
import json
import re
import signal
import urllib.request

import pytest
from selenium.webdriver.common.by import By

from tests.conformance.systems import SYSTEMS
from tests.preflight.conftest import exists, namespace_of
from tests.support.browser import chromium
from tests.support.claims import claim_of
from tests.support.waiting import read_until, until
from tests.tensorboard.conftest import Namespace
from tfsteps.kube.resource import PODS, Resource
from tfsteps.systems.kubernetes.permissions import JOBS, SERVICES, TENSORBOARDS

pytestmark = pytest.mark.cluster

QUOTAS = Resource("v1", "resourcequotas", "ResourceQuota")


def runs_of(cluster, url):
    """Return the runs that a TensorBoard shows at an address of the API server."""
    path = url.removeprefix(cluster.api.access.server) + "data/runs"
    with cluster.api.forward("GET", path, None, {}) as response:
        return json.loads(response.data) if response.status == 200 else None


def url_in(process):
    """Return the address that a launcher or `tfsteps tensorboard` prints."""
    return re.search(r"TensorBoard.* (http\S+)$", read_until(process, "TensorBoard.* http"), re.MULTILINE)[1]


def has_ended(job):
    return any(
        condition["type"] == "Complete" and condition["status"] == "True"
        for condition in job.get("status", {}).get("conditions") or []
    )


@pytest.mark.shows("tensorboard", "kubeflow jobset trainjob jobs")  # the others have their own
@pytest.mark.parametrize("system", ["kubeflow", "jobset", "trainjob", "jobs"])
def test_each_job_system(namespace, tmp_path, system):
    next(item for item in SYSTEMS if item.name == system).install()
    run = "each"  # of one task for each system: a run has one TensorBoard
    namespace.write(run, 1, 2, task=system)
    job = namespace.job(tmp_path / "job.yaml", until=system)
    with namespace.started("run", job, "--system", system, "--run-id", run, "--task", system) as process:
        url = url_in(process)
        until(lambda: f"{system}/logs/train" in (runs_of(namespace.cluster, url) or []))
        namespace.end(system)
        assert "tensorboard  " + url in process.communicate(timeout=90)[0]
        assert process.returncode == 0
    assert f"{system}/logs/train" in runs_of(namespace.cluster, url), "it must outlive the job"
    assert len(namespace.tensorboards(run)) == 1
    shown = json.loads(
        namespace.tfsteps("show", run, "--task", system, "--on", "kubernetes", "--output", "json").stdout
    )
    assert url in json.dumps(shown)


def test_tasks_of_a_run_share_one_that_a_restricted_namespace_admits(namespace, cluster, tmp_path):
    job = namespace.job(tmp_path / "job.yaml", code="true")
    for task in ("fit", "judge"):
        done = namespace.tfsteps("run", job, "--system", "jobs", "--run-id", "shared", "--task", task)
        assert done.returncode == 0, done.stderr
    (board,) = namespace.tensorboards("shared")
    assert board["spec"]["template"]["spec"]["containers"][0]["args"][0] == "/data/runs/shared"
    with namespace_of(cluster, **{"pod-security.kubernetes.io/enforce": "restricted"}) as name:
        pod = {"metadata": {"name": "pod"}, "spec": board["spec"]["template"]["spec"]}
        cluster.api.create(PODS, name, pod, dry_run=True)


def test_a_curve_in_a_browser_before_and_after_the_end_and_after_an_idle_stop(namespace, tmp_path):
    run = "curve"
    job = namespace.job(tmp_path / "job.yaml", idle="20s")
    with (
        chromium(tmp_path / "profile") as browser,
        namespace.started("run", job, "--system", "jobs", "--run-id", run) as process,
    ):
        url_in(process)
        namespace.write(run, 1, 2, 3)
        with namespace.started("tensorboard", run, "--on", "kubernetes") as tunnel:
            page = url_in(tunnel)
            see_curve(browser, page, tmp_path / "during.png")
            namespace.end(run)
            assert process.wait(timeout=90) == 0
            see_curve(browser, page, tmp_path / "after.png")
            browser.get("about:blank")
            tunnel.send_signal(signal.SIGINT)
            assert tunnel.wait(timeout=20) == 0
        (board,) = until(lambda: [item for item in namespace.tensorboards(run) if has_ended(item)])
        assert board["spec"]["ttlSecondsAfterFinished"] == 300
        with namespace.started("tensorboard", run, "--on", "kubernetes") as tunnel:
            see_curve(browser, url_in(tunnel), tmp_path / "again.png")
    (again,) = namespace.tensorboards(run)
    assert again["metadata"]["uid"] != board["metadata"]["uid"]
    owners = namespace.cluster.api.get(SERVICES, namespace.name, again["metadata"]["name"])["metadata"][
        "ownerReferences"
    ]
    assert [owner["uid"] for owner in owners] == [again["metadata"]["uid"]]


def see_curve(browser, page, screenshot):
    """Open TensorBoard until it draws the card of the scalar `loss`."""

    def drawn():
        cards = browser.find_elements(By.CSS_SELECTOR, "scalar-card")
        return any("loss" in card.text for card in cards) and browser.find_elements(By.CSS_SELECTOR, "scalar-card svg")

    for seconds in (2, 4, 8, 16, 16, 16):  # a page that was opened before there was data stays empty
        browser.get("about:blank")
        browser.get(f"{page}#timeseries")
        with contextlib.suppress(AssertionError):
            until(drawn, seconds)
            break
    else:
        raise AssertionError(f"TensorBoard drew no curve: {browser.find_element(By.TAG_NAME, 'body').text}")
    browser.save_screenshot(str(screenshot))


def test_it_comes_back_after_its_node_is_drained(namespace, tmp_path):
    job = namespace.job(tmp_path / "job.yaml", code="true")
    assert namespace.tfsteps("run", job, "--system", "jobs", "--run-id", "drained").returncode == 0
    api, selector = namespace.cluster.api, "tfsteps.dev/run-id=drained,app.kubernetes.io/component=tensorboard"

    def ready():
        pods = api.list(PODS, namespace.name, labelSelector=selector)["items"]
        return [pod for pod in pods if is_ready(pod)]

    (first,) = until(ready)
    pod = first["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}  # all that a drain does
    api.request("POST", PODS.path(namespace.name, pod, "eviction"), {}, eviction)
    until(lambda: [pod for pod in ready() if pod["metadata"]["uid"] != first["metadata"]["uid"]])
    (board,) = namespace.tensorboards("drained")
    assert not has_ended(board)


def test_event_files_whose_job_is_gone(namespace, cluster, tensorboard_image):
    namespace.write("gone", 1)
    where = ["--on", "kubernetes", "--log-dir", "/data/runs/gone", "--claim", "training:/data"]
    with namespace.started("tensorboard", *where, "--image", tensorboard_image) as process:
        url = url_in(process)
        assert json.loads(urllib.request.urlopen(f"{url}data/runs", timeout=20).read()) == ["quick/logs/train"]
    (board,) = namespace.tensorboards("log-dir")
    assert board["spec"]["activeDeadlineSeconds"] == 3600 + 86400
    refused = namespace.tfsteps("tensorboard", "--on", "kubernetes", "--log-dir", "/x", "--claim", "training:/data")
    assert refused.returncode == 2
    assert "/x is on no claim" in refused.stderr
    missing = [*where[:-1], "missing:/data", "--image", tensorboard_image]
    with namespace.started("tensorboard", *missing) as process:
        assert 'persistentvolumeclaim "missing" not found' in read_until(process, "persistentvolumeclaim")


def test_the_resource_of_kubeflow_goes_with_the_job_that_owns_it(namespace, cluster, tmp_path):
    """Without Kubeflow's controller: its resource is made, and ends with the Job that watches the event files."""
    cluster.kubectl("apply", "-f", "-", stdin=TENSORBOARD_CRD)
    cluster.kubectl("wait", "--for=condition=Established", "crd/tensorboards.tensorboard.kubeflow.org", "--timeout=60s")
    namespace.write("via", 1)
    job = namespace.job(tmp_path / "job.yaml", code="sleep 3", via="kubeflow", keep_for="4s")
    done = namespace.tfsteps("run", job, "--system", "jobs", "--run-id", "via")
    assert done.returncode == 0, done.stderr
    assert "There is no TensorBoard" not in done.stderr
    (owner,) = namespace.tensorboards("via")
    name = owner["metadata"]["name"]
    resource = cluster.api.get(TENSORBOARDS, namespace.name, name)
    assert resource["spec"] == {"logspath": "pvc://training/runs/via"}
    until(lambda: has_ended(cluster.api.get(JOBS, namespace.name, name)))
    cluster.api.delete(JOBS, namespace.name, name, owner["metadata"]["uid"])  # as its TTL does
    until(lambda: not exists(cluster.api, TENSORBOARDS, namespace.name, name))


TENSORBOARD_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tensorboards.tensorboard.kubeflow.org}
spec:
  group: tensorboard.kubeflow.org
  names: {kind: Tensorboard, listKind: TensorboardList, plural: tensorboards, singular: tensorboard}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


def is_ready(pod):
    conditions = pod.get("status", {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def test_an_image_that_is_missing_fails_no_job(namespace, tmp_path):
    job = namespace.job(tmp_path / "job.yaml", image="registry.local/missing:1", code="true")
    done = namespace.tfsteps("run", job, "--system", "jobs", "--run-id", "no-image")
    assert done.returncode == 0, done.stderr
    with namespace.started("tensorboard", "no-image", "--on", "kubernetes") as process:
        assert "registry.local/missing:1" in read_until(process, "Image")
    (board,) = namespace.tensorboards("no-image")
    assert board["spec"]["activeDeadlineSeconds"] > 3600, "Kubernetes ends it"


def test_a_quota_that_is_used_up_fails_no_job(cluster, tensorboard_image, busybox, tmp_path):
    with namespace_of(cluster) as name, claim_of(cluster, name) as folder:
        quota = {"metadata": {"name": "jobs"}, "spec": {"hard": {"count/jobs.batch": "1"}}}
        cluster.api.create(QUOTAS, name, quota)
        until(lambda: cluster.api.get(QUOTAS, name, "jobs").get("status", {}).get("hard"))
        namespace = Namespace(cluster, name, folder, tensorboard_image, busybox)
        done = namespace.tfsteps(
            "run", namespace.job(tmp_path / "job.yaml", code="sleep 3"), "--system", "jobs", "--run-id", "poor"
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("There is no TensorBoard: ") == 1
        assert "exceeded quota" in done.stderr
        assert namespace.tensorboards("poor") == []
        refused = namespace.tfsteps("tensorboard", "poor", "--on", "kubernetes")
        assert refused.returncode != 0
        assert "exceeded quota" in refused.stderr
