"""A step that runs on one cluster and launches its job on another: two API servers, of which one dies."""

import base64
import contextlib
import functools
import json
import pathlib
import threading

import msgspec
import pytest
import trustme
import yaml

from tests.support.waiting import until
from tests.unit.cli.command import tfsteps
from tests.unit.cli.jobs_on_cluster import write_kubeconfig
from tests.unit.systems.kubernetes.objects import tfjob
from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.backends.find import Selection
from tfsteps.backends.open import located
from tfsteps.cli.commands import rerun
from tfsteps.kube import access, client
from tfsteps.launcher.lifecycle import launch
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.location import HomeCluster
from tfsteps.settings.find import VARIABLE
from tfsteps.steps import job_step
from tfsteps.systems import registry
from tfsteps.systems.base import Cause, LaunchError
from tfsteps.systems.kubernetes.cleanup.retention import HOME

WHO = Identity(run="r", task="t")
HERE = pathlib.Path("/")
VERSION = {"resourceVersion": "1"}
OWNER = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "w"}
POD = {
    "metadata": {
        "name": "step",
        "namespace": "ns",
        "uid": "p",
        "annotations": {"workflows.argoproj.io/node-name": "wf.fit(0)"},
        "ownerReferences": [{**OWNER, "controller": True}],
    },
    "spec": {"containers": [{"name": "main", "image": "launcher:1"}]},
}
SETTINGS = "clusters: {far: {namespace: there}}"


def plain(**fields):
    return {"name": "job", "image": "trainer:1", "command": ["true"], "roles": {"worker": {}}, **fields}


class Home:
    """The API server of the step: its pod, its Workflow, the settings, and the Secret."""

    def __init__(self, settings=SETTINGS, **secret):
        self.settings, self.secret = settings, secret
        self.namespace = Answer(body={"metadata": {"name": "ns", "uid": "uid-of-ns", **VERSION}})
        self.workflow = {"metadata": {"name": "wf", "uid": "w", **VERSION}, "spec": {}}

    def __call__(self, asked):
        if asked.path.endswith("/configmaps/tfsteps"):
            return Answer(body={"data": {"settings.yaml": self.settings}})
        if "/secrets/" in asked.path:
            if "answer" in self.secret:
                return self.secret["answer"]
            data = {key: base64.b64encode(text.encode()).decode() for key, text in self.secret.items()}
            return Answer(body={"data": data})
        if asked.path == "/api/v1/namespaces/ns":
            return self.namespace
        if asked.path.endswith("/pods/step"):
            return Answer(body=POD)
        if "/workflows" in asked.path and "watch" not in asked.query:
            return Answer(body={"metadata": VERSION, "items": [self.workflow]})
        if "/pods" in asked.path and "watch" not in asked.query:
            return Answer(body={"metadata": VERSION, "items": []})
        if "watch" in asked.query:
            return Answer(parts=["hang"])
        return refusal(404, "NotFound")


class Far:
    """The API server of the jobs.

    Attributes:
        jobs: The TFJobs.
        ended: Once set, the job has succeeded.
        down: While it is set, each request is cut off.
    """

    def __init__(self):
        self.jobs, self.ended, self.down = [], threading.Event(), threading.Event()
        self.deleted = threading.Event()

    def __call__(self, asked):
        if self.down.is_set():
            return "reset"
        if asked.path == "/apis":
            return Answer(body={"groups": [{"versions": [{"groupVersion": "kubeflow.org/v1"}]}]})
        if asked.path == "/apis/kubeflow.org/v1":
            return Answer(body={"resources": [{"name": "tfjobs"}]})
        if "selfsubjectaccessreviews" in asked.path:
            return Answer(201, {"status": {"allowed": True}})
        if "/kubeflow.org/v1/" in asked.path and "/tfjobs" in asked.path:
            return self.of_jobs(asked)
        if asked.method == "POST":
            return refusal(403, "Forbidden")
        if "/configmaps/" in asked.path:
            return refusal(404, "NotFound")
        if "watch" in asked.query:
            return Answer(parts=["hang"])
        return Answer(body={"metadata": VERSION, "items": []})

    def of_jobs(self, asked):
        if asked.method == "POST":
            meta = {
                **asked.body["metadata"],
                "uid": "u1",
                "namespace": "there",
                "creationTimestamp": "2026-11-26T00:00:00Z",
                **VERSION,
            }
            item = {**asked.body, "metadata": meta}
            if "dryRun" not in asked.query:
                self.jobs.append(item)
            return Answer(201, item)
        if "watch" in asked.query:
            return Answer(parts=self.events())
        if asked.path.endswith("/tfjobs"):
            return Answer(body={"metadata": VERSION, "items": self.jobs})
        name = asked.path.split("/")[-1]
        item = next((item for item in self.jobs if item["metadata"]["name"] == name), None)
        if item is None:
            return refusal(404, "NotFound", about=name)
        if asked.method == "DELETE":
            self.jobs.remove(item)
            self.deleted.set()
        return Answer(body=item)

    def events(self):
        while not (self.ended.is_set() or self.down.is_set() or self.deleted.is_set()):
            yield 0.05
        if self.down.is_set():
            yield "reset"
        if self.deleted.is_set():
            yield {"type": "DELETED", "object": tfjob(uid="u1")}
            return
        self.jobs[0]["status"] = tfjob("Succeeded")["status"]
        yield {"type": "MODIFIED", "object": self.jobs[0]}
        yield "hang"


def kubeconfig(server, **cluster):
    authority = server.authority.cert_pem.bytes() if server.authority else b""
    cluster = {"certificate-authority-data": base64.b64encode(authority).decode(), **cluster} if authority else cluster
    return yaml.safe_dump(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "other"}}],
            "clusters": [{"name": "c", "cluster": {"server": server.access().server, **cluster}}],
            "users": [{"name": "u", "user": {"token": "far-t0ken"}}],
        }
    )


@pytest.fixture
def pod(monkeypatch, tmp_path):
    """Return a function that makes this process a step's pod at home, beside another cluster."""
    with contextlib.ExitStack() as stack:

        def run(home=None, far=None, **config):
            far = far or Far()
            there = stack.enter_context(serve(far, tls=True))
            home = home or Home(far=kubeconfig(there, **config))
            here = stack.enter_context(serve(home))
            current_access = here.access()
            monkeypatch.setattr(access, "in_cluster", lambda: True)
            monkeypatch.setattr(access, "_from_pod", lambda: current_access)
            return here, there

        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv("POD_NAME", "step")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
        monkeypatch.delenv(VARIABLE, raising=False)
        monkeypatch.setattr("tfsteps.kube.http_client.SETTLE_SECONDS", 0.0)
        yield run


def system_for(job, name="kubeflow"):
    system = job_step.find_system(name, task=WHO, job=job)
    return system, system.with_settings(job, registry.options())


def launched(job, **observers):
    """Launch a job as the `train` step does, and return its status; in a thread, so that a test can go on."""
    system, job = system_for(job)
    results = []
    thread = threading.Thread(
        target=lambda: results.append(launch(job, WHO, system, base_dir=HERE, **observers)),
        daemon=True,
    )
    thread.start()
    return system, thread, results


def changes(server):
    return [(asked.method, asked.path) for asked in server.asked if asked.method in ("POST", "PATCH", "DELETE")]


@pytest.mark.shows("cluster")
def test_the_job_is_there_and_the_step_stays_here(pod):
    far = Far()
    here, there = pod(far=far)
    _, thread, results = launched(spec.from_plain(plain(cluster="far")))
    until(lambda: far.jobs)
    far.ended.set()
    thread.join(20)
    assert [(status.state, status.cluster, status.namespace) for status in results] == [
        (State.SUCCEEDED, "far", "there")
    ]
    (job,) = far.jobs
    assert job["metadata"]["namespace"] == "there"
    assert "ownerReferences" not in job["metadata"], "an owner on another cluster is no owner: the job would be deleted"
    home = json.loads(job["metadata"]["annotations"][HOME])
    assert (home["namespace"], home["owner"]["uid"], home["namespace_uid"]) == ("ns", "w", "uid-of-ns")
    assert job["metadata"]["annotations"]["tfsteps.dev/launcher"] == "wf.fit"
    assert not [path for _, path in changes(here) if "/pods/step" not in path], "nothing of the job is created here"
    assert {asked.token for asked in there.asked} == {"far-t0ken"}
    assert {asked.token for asked in here.asked} == {"t0ken"}
    assert not [asked.path for asked in there.asked if "/pods/step" in asked.path or "workflows" in asked.path]
    (label,) = [asked.body["metadata"]["labels"] for asked in here.asked if asked.method == "PATCH"]
    assert label["tfsteps.dev/cluster"] == "far"


def test_a_server_that_dies_is_waited_for_and_the_job_is_followed_to_its_end(pod):
    far = Far()
    _, there = pod(far=far)
    lines = []
    _, thread, results = launched(spec.from_plain(plain(cluster="far")), observers=[Lines(lines)])
    until(lambda: far.jobs and any("watch" in asked.query for asked in there.asked))
    far.down.set()
    tries = len(there.asked)
    until(lambda: len(there.asked) > tries + 3)
    assert thread.is_alive(), "no verdict while the server is away"
    far.down.clear()
    far.ended.set()
    thread.join(30)
    assert [status.state for status in results] == [State.SUCCEEDED]
    assert len(far.jobs) == 1
    assert not [asked for asked in there.asked if asked.method == "DELETE"]


def test_the_end_of_the_own_cluster_ends_no_job(pod):
    """The pod's API server dies: whether the run is ending is not known, and the job goes on."""
    home, far = Home(), Far()
    here, there = pod(home, far)
    home.secret["far"] = kubeconfig(there)
    _, thread, results = launched(spec.from_plain(plain(cluster="far")))
    until(lambda: far.jobs)
    here.shutdown()
    here.server_close()
    far.ended.set()
    thread.join(20)
    assert [status.state for status in results] == [State.SUCCEEDED]


def test_the_end_of_the_run_here_ends_the_job_there(pod):
    home, far = Home(), Far()
    home.workflow["spec"] = {"shutdown": "Terminate"}
    _, there = pod(home, far)
    home.secret["far"] = kubeconfig(there)
    _, thread, results = launched(spec.from_plain(plain(cluster="far")))
    thread.join(20)
    assert [status.state for status in results] == [State.CANCELLED]
    assert {asked.path.split("/")[5] for asked in there.asked if asked.method == "DELETE"} == {"there"}
    assert not far.jobs


def test_a_restarted_launcher_adopts_its_job(pod):
    far = Far()
    _, there = pod(far=far)
    job = spec.from_plain(plain(cluster="far"))
    starts = []
    for _ in range(2):
        system, settled = system_for(job)
        assert system.attempt("r", "t") == 0
        starts.append(system.start(settled, WHO, system.output_paths(settled, WHO, HERE)))
    assert [start.is_new for start in starts] == [True, False]
    assert starts[0].uid == starts[1].uid
    posts = [asked for asked in there.asked if asked.method == "POST" and "tfjobs" in asked.path]
    assert ["dryRun" in asked.query for asked in posts] == [True, False]


def test_the_job_system_is_chosen_by_the_other_cluster(pod):
    home = Home("clusters: {far: {}}\nrequired: {cluster: far}")
    here, there = pod(home)
    home.secret["far"] = kubeconfig(there)
    system, job = system_for(spec.from_plain(plain()), "auto")
    assert (system.name, job.cluster, system.cluster.namespace) == ("kubeflow", "far", "other")
    assert not [asked.path for asked in here.asked if asked.path.startswith("/apis")]
    assert [asked.path for asked in here.asked].count("/api/v1/namespaces/ns/configmaps/tfsteps") == 1


def test_the_settings_may_forbid_another_cluster(pod):
    pod(Home("clusters: {far: {}}\nrequired: {cluster: in-cluster}"))
    with pytest.raises(spec.SpecError, match=r"cluster: .far. is not what the platform requires.*in-cluster"):
        system_for(spec.from_plain(plain(cluster="far")))


def test_a_launcher_that_is_evicted_keeps_the_job_without_an_owner(pod):
    far = Far()
    kept = []

    def keepers(asked):
        if asked.path.endswith("/there/jobs"):
            kept.append(asked.body)
            meta = {**asked.body["metadata"], "uid": "k", "creationTimestamp": "2026-11-24T03:00:00Z"}
            return Answer(201, {**asked.body, "metadata": meta})
        return far(asked)

    home = Home()
    _, there = pod(home, keepers)
    home.secret["far"] = kubeconfig(there)
    system, job = system_for(spec.from_plain(plain(cluster="far", on_evicted="30m")))
    handle = system.start(job, WHO, system.output_paths(job, WHO, HERE))
    handle.is_new = False
    host = system._host
    host.pipeline.pending = host.pipeline.recreates_pod = host.pipeline.terminating
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(POD["metadata"], "deletionTimestamp", "2026-11-24T03:00:00Z")
        handle.stop(Cause.CANCELLED)
        with pytest.raises(LaunchError, match="the job is kept until"):
            list(handle.events())
    assert kept[0]["metadata"]["ownerReferences"] == [], "of an absent owner, Kubernetes deletes the keeper and the job"
    (change,) = [asked.body["metadata"] for asked in there.asked if "ownerReferences" in json.dumps(asked.body or {})][
        -1:
    ]
    assert [owner["uid"] for owner in change["ownerReferences"]] == ["k"]


def test_a_finalizer_cleans_up_where_the_launchers_have_launched(pod, monkeypatch):
    home, far = Home(), Far()
    far.jobs.append(tfjob("Running"))
    _, there = pod(home, far)
    home.secret["far"] = kubeconfig(there)
    labelled = {"metadata": {"name": "step", "uid": "p", "labels": {"tfsteps.dev/cluster": "far"}}}
    ask = home.__call__

    def script(asked):
        if asked.path.endswith("/pods") and "tfsteps.dev/cluster" in asked.query.get("labelSelector", ""):
            return Answer(body={"metadata": VERSION, "items": [labelled]})
        return ask(asked)

    monkeypatch.setattr(Home, "__call__", lambda _self, asked: script(asked))
    assert job_step.clusters_to_clean_up("", "r") == (["", "far"], [])
    assert job_step.clusters_to_clean_up("in-cluster", "r") == ([""], [])
    removed = job_step.find_finalizer("auto", "far").clean_up(WHO, "run", None)
    assert (removed, far.jobs) == (["job"], [])


@pytest.mark.parametrize(
    ("platform", "project", "cluster"),
    [
        ("required: {cluster: far}", "defaults: {cluster: lab}", "far"),
        ("required: {cluster: in-cluster}", "defaults: {cluster: lab}", ""),
        ("defaults: {cluster: far}", "defaults: {cluster: lab}", "lab"),
        ("defaults: {cluster: far}", "required: {cluster: in-cluster}", ""),
        ("defaults: {cluster: far}", "defaults: {}", "far"),
    ],
)
def test_a_finalizer_cleans_up_on_the_cluster_that_jobs_get(pod, platform, project, cluster):
    clusters = "clusters: {far: {namespace: there}, lab: {namespace: there}}"
    settings = f"{clusters}\n{platform}\nprojects: {{p: {{namespaces: [ns], {project}}}}}"
    pod(Home(settings), Far())
    system = registry.get("kubeflow")
    assert system.with_settings(spec.from_plain(plain()), registry.options()).other_cluster == cluster
    assert job_step.clusters_to_clean_up("", "r") == (sorted({"", cluster}), [])


def test_wrong_settings_leave_the_known_clusters_to_clean_up(pod):
    pod(Home("defaults: {clusterr: far}"), Far())
    names, (error,) = job_step.clusters_to_clean_up("", "r")
    assert (names, error.retryable) == ([""], False)
    assert str(error).startswith("the cluster of jobs that name none is not known: ")
    assert "defaults.clusterr: is not a known field. Write `cluster`." in str(error)


def test_the_job_of_a_launch_step_is_found_by_the_wait_step(pod):
    far = Far()
    far.jobs.append(tfjob("Running"))
    pod(far=far)
    system = job_step.find_system("kubeflow", {"namespace": "there", "context": "far"})
    handle = system.attach(spec.from_plain(plain(cluster="far")), "job", "u1", 0.0)
    far.ended.set()
    assert [event.state for event in handle.events() if hasattr(event, "state")][-1] is State.SUCCEEDED


@pytest.fixture
def desk(monkeypatch, tmp_path):
    """Return a function that makes a server the cluster of the user's kubeconfig; the other one is in its settings."""
    with contextlib.ExitStack() as stack:

        def run(home, far, settings=SETTINGS):
            there = stack.enter_context(serve(far, tls=True))
            home.settings, home.secret["far"] = settings, kubeconfig(there)
            here = stack.enter_context(serve(home))
            write_kubeconfig(tmp_path / "kubeconfig", here, monkeypatch)
            return here, there

        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.delenv(VARIABLE, raising=False)
        monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "home"))
        yield run


class HomeOfLabelled(Home):
    """A cluster with the pod of a launcher whose job is elsewhere, and no job."""

    def __call__(self, asked):
        if asked.path.endswith("/pods") and "tfsteps.dev/cluster" in asked.query.get("labelSelector", ""):
            labels = {"tfsteps.dev/cluster": "far", "tfsteps.dev/run-id": "r"}
            return Answer(body={"metadata": VERSION, "items": [{"metadata": {"name": "step", "labels": labels}}]})
        if asked.path.endswith(("/tfjobs", "/workflows")) and "watch" not in asked.query:
            return Answer(body={"metadata": VERSION, "items": []})
        return super().__call__(asked)


def test_commands_find_the_job_by_the_cluster_of_the_settings(desk):
    far = Far()
    job = tfjob("Running")
    labels = WHO.labels()
    job["metadata"] |= {"labels": labels, "creationTimestamp": "2026-11-26T00:00:00Z", "namespace": "there"}
    far.jobs.append(job)
    desk(HomeOfLabelled(), far)
    code, _, error = tfsteps("show", "r", "--on", "kubernetes")
    assert (code, "the jobs of run r are on cluster far; add --context far" in error) == (2, True)
    code, shown, _ = tfsteps("show", "r", "--on", "kubernetes", "--context", "far", "--output", "json")
    assert (code, '"namespace": "there"' in shown) == (0, True)
    code, _, _ = tfsteps("stop", "r", "--on", "kubernetes", "--context", "far", "--now")
    assert not far.jobs, code


def test_a_context_that_is_nowhere_names_both_places(desk):
    desk(Home(), Far())
    code, _, error = tfsteps("runs", "--on", "kubernetes", "--context", "near")
    assert code == 2
    assert "has no context 'near'; it has: test" in error
    assert "Nor is it a cluster of the platform settings (ConfigMap ml/tfsteps): far" in error


def test_a_command_launches_there_and_records_where(desk, tmp_path):
    far = Far()
    far.ended.set()
    here, _ = desk(Home(), far)
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(plain(cluster="far")))
    code, _, error = tfsteps("run", tmp_path / "job.yaml", "--on", "kubernetes", "-n", "vision", "--run-id", "r")
    assert code == 0, error
    (job,) = far.jobs
    assert job["metadata"]["namespace"] == "there"
    assert json.loads(job["metadata"]["annotations"][HOME])["namespace"] == "vision"
    assert not changes(here)
    code, shown, _ = tfsteps("show", "r", "--output", "json")
    assert '"cluster": "far"' in shown
    assert '"context": "test"' in shown
    assert "on kubeflow, namespace there, cluster far" in tfsteps("show", "r")[1]
    code, output, error = tfsteps("clear", "r", "--yes")
    assert (code, far.jobs) == (0, []), error
    assert "TFJob there/" in output


class HomeOfVision(Home):
    """A cluster whose settings, and the Secret, are in one namespace that is not that of its context."""

    def __call__(self, asked):
        if asked.path.endswith("/configmaps/tfsteps") and "/namespaces/vision/" not in asked.path:
            return refusal(404, "NotFound")
        if "/secrets/" in asked.path and "/namespaces/vision/" not in asked.path:
            return refusal(404, "NotFound")
        return super().__call__(asked)


@pytest.fixture
def launched_elsewhere(desk, tmp_path):
    """Return the cluster of a job that was launched from namespace `vision` by another context than the current."""
    far = Far()
    far.ended.set()
    desk(HomeOfVision(), far)
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(plain(cluster="far")))
    code, _, error = tfsteps("run", tmp_path / "job.yaml", "--on", "kubernetes", "-n", "vision", "--run-id", "r")
    assert code == 0, error
    with serve(lambda _: refusal(404, "NotFound")) as other:
        config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
        address = f"http://127.0.0.1:{other.server_port}"
        config["clusters"].append({"name": "now", "cluster": {"server": address}})
        config["contexts"].append({"name": "now", "context": {"cluster": "now", "namespace": "ml"}})
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump({**config, "current-context": "now"}))
        yield far
        assert not other.asked, "the current context has nothing to do with the job"


def test_the_record_leads_to_a_job_on_another_cluster(launched_elsewhere):
    far = launched_elsewhere
    code, shown, error = tfsteps("show", "r", "--on", "kubernetes", "--context", "far", "-n", "there")
    assert (code, "namespace there" in shown) == (0, True), error
    first = far.jobs.pop()
    code, output, error = tfsteps("rerun", "r", "--run-id", "r2")
    assert code == 0, error
    (second,) = far.jobs
    assert second["metadata"]["namespace"] == "there"
    assert json.loads(second["metadata"]["annotations"][HOME])["namespace"] == "vision"
    far.jobs[:] = [first]
    code, output, error = tfsteps("clear", "r", "--yes")
    assert (code, far.jobs, "TFJob there/" in output) == (0, [], True), error


def test_a_job_on_another_cluster_is_attached_to_by_its_record(launched_elsewhere):
    (attempt,) = store.attempts("r")
    left = msgspec.structs.replace(attempt.status(), state=State.RUNNING, ended=None, detached=True)
    with contextlib.closing(attempt.claim()):
        attempt.write(left)
    code, output, error = tfsteps("attach", "r")
    assert (code, "succeeded" in output) == (0, True), error
    assert attempt.status().home == HomeCluster("test", "vision")


def test_a_rerun_says_that_the_namespace_of_the_launch_is_not_recorded(launched_elsewhere):
    (attempt,) = store.attempts("r")
    with contextlib.closing(attempt.claim()):
        attempt.write(msgspec.structs.replace(attempt.status(), home_namespace=""))
    code, _, error = tfsteps("rerun", "r")
    assert (code, "the namespace that the job was launched from is not recorded" in error) == (2, True)
    assert len(launched_elsewhere.jobs) == 1


@pytest.mark.usefixtures("launched_elsewhere")
def test_a_rerun_of_a_job_found_on_its_cluster_has_the_settings_of_its_home():
    selection = Selection("r")
    status, _ = rerun.recorded(selection, located(selection, "kubernetes", "far", "there"))
    assert rerun._launched_from(status, "far") == ("test", "vision")


def test_a_rerun_without_a_record_says_that_the_home_of_the_job_is_not_known(launched_elsewhere, tmp_path, monkeypatch):
    far = launched_elsewhere
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "nothing"))
    config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    with serve(far) as server:
        config["clusters"].append({"name": "direct", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}})
        config["contexts"].append({"name": "direct", "context": {"cluster": "direct", "namespace": "there"}})
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
        _, _, error = tfsteps("rerun", "r", "--on", "kubernetes", "--context", "direct", "--dry-run")
    assert "warning: the job was launched from namespace vision of another cluster" in error


class Lines:
    """An observer that keeps what it is told."""

    def __init__(self, lines):
        self.lines = lines

    def changed(self, status):
        self.lines.append(str(status.state))

    def logged(self, lines):
        self.lines.append(lines)


EXEC = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}}


def with_user(user):
    config = {"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}
    config["clusters"] = [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}]
    return yaml.safe_dump({**config, "users": [{"name": "u", "user": user}]})


WRONG = {
    "absent": ({"answer": refusal(404, "NotFound")}, "Secret ns/tfsteps-clusters does not exist; `kubectl create"),
    "forbidden": ({"answer": refusal(403, "Forbidden", "not you")}, r"cannot be read: not you; grant `get` for it"),
    "no key": ({"near": "x"}, "has no key 'far': it has near; add it"),
    "empty": ({"far": ""}, "key far is empty"),
    "not YAML": ({"far": "a: ["}, "key far is not YAML at line 1"),
    "no kubeconfig": ({"far": "a: b"}, "has no context ''; it has: none"),
    "a file": (
        {"far": with_user({"client-certificate": "c.crt", "client-key": "c.key"})},
        "`client-certificate` names a file, and this kubeconfig is in no folder; put the file's content in",
    ),
    "a plug-in": ({"far": with_user(EXEC)}, "`command` cannot be started: No such file or directory; install"),
}


@pytest.mark.parametrize(("secret", "message"), WRONG.values(), ids=WRONG)
def test_a_kubeconfig_that_cannot_be_used_is_one_clear_error(secret, message, pod, monkeypatch):
    monkeypatch.setattr("tfsteps.kube.http_client._SETTLE_PAUSES", (5.0, 5.0))
    here, _ = pod(Home(**secret))
    system, job = system_for(spec.from_plain(plain(cluster="far")))
    with pytest.raises(LaunchError, match=message) as caught:
        launch(job, msgspec.structs.replace(WHO, attempt=system.attempt("r", "t")), system, base_dir=HERE)
    assert not caught.value.retryable
    assert "cluster far: Secret ns/tfsteps-clusters" in str(caught.value)
    assert not changes(here)


@pytest.mark.parametrize("name", ["near", "FAR"])
def test_an_unknown_cluster_names_those_that_are_known(name, pod):
    pod()
    with pytest.raises(spec.SpecError) as caught:
        system_for(spec.from_plain(plain(cluster=name)))
    text = str(caught.value)
    assert f"cluster: '{name}' is not a cluster" in text
    assert "in-cluster, far" in text
    assert "ConfigMap ns/tfsteps" in text


def test_a_server_that_does_not_answer_is_a_fault_of_the_platform(pod, monkeypatch):
    monkeypatch.setattr(client, "Api", functools.partial(client.Api, patience=0.3))
    far = Far()
    far.down.set()
    pod(far=far)
    system, _ = system_for(spec.from_plain(plain(cluster="far")))
    with pytest.raises(
        LaunchError, match=r"cluster far \(https://127.0.0.1:\d+, Secret .*\) cannot be reached"
    ) as caught:
        system.attempt("r", "t")
    assert caught.value.retryable


def test_a_certificate_of_another_authority_is_not_trusted(pod, monkeypatch):
    monkeypatch.setattr(client, "Api", functools.partial(client.Api, patience=0.3))
    other = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    _, there = pod(**{"certificate-authority-data": other})
    system, _ = system_for(spec.from_plain(plain(cluster="far")))
    with pytest.raises(LaunchError, match=r"cluster far .* cannot be reached: .*certificate verify failed") as caught:
        system.attempt("r", "t")
    assert caught.value.retryable
    assert not there.asked
