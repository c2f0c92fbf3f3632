"""The preflight at the wire: the requests, and that only a certain refusal stops a launch."""

import base64
import pathlib

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.kube import access
from tfsteps.runs import code_archive
from tfsteps.runs.identity import Identity
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.dependents import UNFINISHED

JOBS = "/apis/kubeflow.org/v1/namespaces/ns/tfjobs"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
USER = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
EVERYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
NOT_FOUND, UNKNOWN_KIND = refusal(404, "NotFound"), Answer(404, b"404 page not found\n")


class Cluster:
    """An API server on which everything is allowed and nothing is there, but for what `answers` says by path."""

    def __init__(self, rules=(EVERYTHING,), **answers):
        self.rules, self.answers = list(rules), answers
        self.created = None

    def __call__(self, asked):
        if asked.method == "POST":
            return self._post(asked)
        if scripted_answer := next((answer for end, answer in self.answers.items() if asked.path.endswith(end)), None):
            return scripted_answer
        if asked.path.endswith(("quotas", "ranges")):
            return Answer(200, {"items": []})
        return Answer(200, self.created) if self.created else NOT_FOUND

    def _post(self, asked):
        if asked.path == RULES:
            return Answer(201, {"status": {"resourceRules": self.rules, "incomplete": False}})
        if asked.path == ACCESS:
            return self.answers.get("access", Answer(201, {"status": {"allowed": False}}))
        if asked.path == USER:
            assert "spec" not in asked.body
            return self.answers.get("user", Answer(201, {"status": {"userInfo": {"username": "alice"}}}))
        if "dryRun" in asked.query:
            return self.answers.get("dry run", Answer(201, asked.body))
        created = {**asked.body, "metadata": {**asked.body["metadata"], "uid": "u"}}
        if created["kind"] != "ConfigMap":
            self.created = created
        return Answer(201, created)


def test_code_is_created_after_its_job_which_owns_it(monkeypatch, tmp_path):
    (tmp_path / "train.py").write_text("print(1)")
    digest = code_archive.pack(tmp_path).digest
    cluster = Cluster()
    with serve(cluster) as server:
        start(server, monkeypatch, command=["python", "train.py"], code={"digest": digest})
        posted = [asked for asked in server.asked if asked.method == "POST" and asked.path.startswith("/api")]
        [job, config_map] = [
            asked for asked in posted if "dryRun" not in asked.query and "authorization" not in asked.path
        ]
        [patch] = [asked for asked in server.asked if asked.method == "PATCH"]
        looked_for = [asked.path for asked in server.asked if asked.method == "GET"]
    assert (job.path, config_map.path) == (JOBS, "/api/v1/namespaces/ns/configmaps")
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": job.body["metadata"]["name"], "uid": "u"}
    assert config_map.body["metadata"]["ownerReferences"] == [owner]
    assert base64.b64decode(config_map.body["binaryData"]["code.tar.gz"]) == code_archive.read(digest)
    assert patch.body["metadata"]["annotations"] == {UNFINISHED: None}
    assert not any("configmaps" in path for path in looked_for)  # it is not missing: it is created with the job


def test_without_the_permission_to_create_config_maps_only_jobs_with_code_are_refused(monkeypatch, tmp_path):
    (tmp_path / "train.py").write_text("print(1)")
    digest = code_archive.pack(tmp_path).digest
    rules = [{**EVERYTHING, "apiGroups": ["kubeflow.org"]}, {**EVERYTHING, "resources": ["pods", "pods/log"]}]
    with serve(Cluster(rules)) as server:
        with pytest.raises(LaunchError, match="this launcher may not: get configmaps, create configmaps"):
            start(server, monkeypatch, command=["python", "train.py"], code={"digest": digest})
        assert not [
            asked for asked in server.asked if asked.method == "POST" and "/tfjobs" in asked.path and not asked.query
        ]
        start(server, monkeypatch, command=["python", "train.py"])


def start(server, monkeypatch, system="kubeflow", **fields):
    """Start a job as a launcher outside of the cluster does."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(access, "find", lambda _context: server.access())
    system = registry.get(system)
    job = spec.from_plain({"name": "a", "image": "i", "roles": {"worker": {}}, **fields}, "test", {"kubeflow": None})
    identity = Identity(run="r", task="t")
    return system.start(job, identity, system.output_paths(job, identity, pathlib.Path()))


def findings(cluster, monkeypatch, **fields):
    """Return what a launch was refused for; empty = it was not."""
    refused = None
    with serve(cluster) as server:
        try:
            start(server, monkeypatch, **fields)
        except LaunchError as error:
            refused = error
    assert bool(cluster.created) == (refused is None)
    assert not (refused and refused.retryable)
    return str(refused or "")


SECRET = {"env": {"A": {"secret": "hub", "key": "token"}}}


def test_what_a_launch_asks(monkeypatch):
    with serve(Cluster()) as server:
        handle = start(server, monkeypatch)
    assert handle.uid == "u"
    paths = [(asked.method, asked.path.removeprefix("/api/v1/namespaces/ns/"), asked.query) for asked in server.asked]
    strict = {"fieldValidation": "Strict"}
    assert paths == [
        ("GET", f"{JOBS}/{handle.name}", {}),
        ("POST", RULES, {}),
        ("POST", JOBS, {**strict, "dryRun": "All"}),
        ("GET", "resourcequotas", {}),
        ("GET", "limitranges", {}),
        ("POST", JOBS, strict),
    ]


def test_an_adopted_job_needs_no_preflight(monkeypatch):
    cluster = Cluster()
    with serve(cluster) as server:
        start(server, monkeypatch)
        server.asked.clear()
        cluster.rules.clear()
        assert start(server, monkeypatch).uid == "u"
    assert [asked.method for asked in server.asked] == ["GET"]


def test_a_launcher_that_was_faster_is_joined(monkeypatch):
    cluster = Cluster()

    def second(asked):
        create = asked.method == "POST" and asked.path == JOBS and "dryRun" not in asked.query
        answer = cluster(asked)
        return refusal(409, "AlreadyExists") if create else answer

    with serve(second) as server:
        assert start(server, monkeypatch).uid == "u"
        assert server.asked[-1].method == "GET"


def test_a_cluster_without_the_operator(monkeypatch):
    cluster = Cluster()
    with (
        serve(lambda asked: UNKNOWN_KIND if asked.path.startswith(JOBS) else cluster(asked)) as server,
        pytest.raises(LaunchError, match=r"no TFJob .* the training operator is not installed") as caught,
    ):
        start(server, monkeypatch)
    assert not caught.value.retryable


def test_all_findings_are_reported_at_once(monkeypatch):
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}}
    cluster = Cluster(resourcequotas=Answer(200, {"items": [quota]}))
    message = findings(cluster, monkeypatch, service_account="bob", **SECRET)
    assert message == (
        "nothing was created: (1) ServiceAccount ns/bob is missing: create it, or correct its name; "
        "(2) Secret ns/hub is missing: create it, or correct its name; "
        "(3) ResourceQuota small: all replicas together need 1 pods, 0 is allowed: ask for less, or have it raised"
    )


def rule(verbs, group, resources, names=()):
    return {"verbs": verbs, "apiGroups": [group], "resources": resources, "resourceNames": list(names)}


LAUNCHER = (
    rule(["get", "list", "watch", "create", "patch", "delete"], "kubeflow.org", ["tfjobs"]),
    rule(["*"], "", ["pods"]),
    rule(["get"], "*", ["pods/log"]),
)


def test_exactly_the_needed_permissions_suffice(monkeypatch):
    assert findings(Cluster(LAUNCHER), monkeypatch) == ""


@pytest.mark.parametrize(
    ("rules", "lacking"),
    [
        ((), "get tfjobs.kubeflow.org, create tfjobs.kubeflow.org, list tfjobs.kubeflow.org, watch"),
        (LAUNCHER[1:], "delete tfjobs.kubeflow.org;"),
        ((LAUNCHER[0], LAUNCHER[2]), "not: list pods, watch pods, delete pods;"),
        (LAUNCHER[:2], "not: get pods/log;"),
        ((*LAUNCHER[:2], rule(["get"], "", ["pods/exec", "*/status"])), "not: get pods/log;"),
        ((*LAUNCHER[1:], rule(["*"], "kubeflow.org", ["tfjobs"], ["another"])), "create tfjobs"),
        ((*LAUNCHER[1:], rule(["*"], "", ["tfjobs"])), "create tfjobs"),
    ],
)
def test_missing_permissions(rules, lacking, monkeypatch):
    message = findings(Cluster(rules), monkeypatch)
    assert lacking in message
    assert "in namespace ns this launcher may not: " in message


PODS_ALLOWED = (rule(["*"], "", ["pods", "pods/log"]),)


def user(name):
    return Answer(201, {"status": {"userInfo": {"username": name}}})


@pytest.mark.parametrize("system", ["kubeflow", "jobset"])
@pytest.mark.parametrize(
    ("answer", "how"),
    [
        (
            user("system:serviceaccount:ns:default-editor"),
            "grant it: `tfsteps role {0} --namespace ns --service-account default-editor | kubectl apply -f -`",
        ),
        (user("alice"), "bind the Role that `tfsteps role {0} --namespace ns` prints to the user alice"),
        (
            user("system:serviceaccount:other:default-editor"),
            "bind the Role that `tfsteps role {0} --namespace ns` prints to the user system:serviceaccount:other:",
        ),
        (user(None), "bind the Role that `tfsteps role {0} --namespace ns` prints to its ServiceAccount"),
        (
            refusal(403, "Forbidden"),
            "bind the Role that `tfsteps role {0} --namespace ns` prints to its ServiceAccount",
        ),
        (Answer(201, {"status": {}}), "bind the Role that `tfsteps role {0} --namespace ns` prints to its Service"),
    ],
)
def test_the_command_that_grants_what_is_lacking_is_named(system, answer, how, monkeypatch):
    message = findings(Cluster(PODS_ALLOWED, user=answer), monkeypatch, system=system)
    assert message.startswith(f"nothing was created: job system {system}: in namespace ns this launcher may not: get ")
    assert f"; {how.format(system)}" in message


QUEUE = "/apis/kueue.x-k8s.io/{}/namespaces/ns/localqueues/research"
FOUND = Answer(200, {"metadata": {"name": "research", "uid": "q"}})
NO_QUEUE = "nothing was created: LocalQueue ns/research is missing: create it, or correct its name"


@pytest.mark.parametrize(
    ("newer", "older", "message"),
    [
        (FOUND, UNKNOWN_KIND, ""),
        (UNKNOWN_KIND, FOUND, ""),
        (UNKNOWN_KIND, UNKNOWN_KIND, ""),
        (NOT_FOUND, FOUND, NO_QUEUE),
        (UNKNOWN_KIND, NOT_FOUND, NO_QUEUE),
        (refusal(403, "Forbidden"), NOT_FOUND, ""),
    ],
)
def test_a_queue_is_looked_for_in_the_version_that_is_served(newer, older, message, monkeypatch):
    answers = {QUEUE.format("v1beta2"): newer, QUEUE.format("v1beta1"): older}
    assert findings(Cluster(**answers), monkeypatch, queue="research") == message


MULTIKUEUE = "kueue.x-k8s.io/multikueue"


@pytest.mark.parametrize(
    ("system", "spec", "refused"),
    [
        ("jobset", {"managedBy": MULTIKUEUE}, True),
        ("kubeflow", {"runPolicy": {"managedBy": MULTIKUEUE}}, True),
        ("jobs", {"managedBy": MULTIKUEUE}, True),
        ("jobset", {"managedBy": "jobset.sigs.k8s.io/jobset-controller"}, False),
        ("kubeflow", {"runPolicy": {"managedBy": "kubeflow.org/training-operator"}}, False),
    ],
)
def test_a_job_that_runs_on_another_cluster_is_refused(system, spec, refused, monkeypatch):
    """Kueue's webhook sets the field for a queue with MultiKueue, in a dry run as well."""
    cluster = Cluster()

    def script(asked):
        if asked.method == "POST" and "dryRun" in asked.query:
            return Answer(201, {**asked.body, "spec": {**asked.body["spec"], **spec}})
        return cluster(asked)

    with serve(script) as server:
        if refused:
            with pytest.raises(LaunchError, match=f"gives the .* to {MULTIKUEUE} .*: name a `queue` whose jobs stay"):
                start(server, monkeypatch, system)
        else:
            start(server, monkeypatch, system)
    assert (cluster.created is None) == refused


def test_an_authorizer_that_fails_denies_nothing(monkeypatch):
    failed = Answer(201, {"status": {"allowed": False, "evaluationError": "a webhook is down"}})
    assert findings(Cluster(PODS_ALLOWED, access=failed), monkeypatch) == ""


def test_a_creation_that_is_not_allowed_is_not_tried(monkeypatch):
    message = findings(Cluster(LAUNCHER[1:], **{"dry run": refusal(403)}), monkeypatch)
    assert "create tfjobs" in message
    assert "refuses" not in message


def test_who_keeps_the_pods_need_not_delete_them(monkeypatch):
    rules = (LAUNCHER[0], rule(["list", "watch"], "", ["pods"]), rule(["get"], "", ["*/log"]))
    assert "delete pods" in findings(Cluster(rules), monkeypatch)
    assert findings(Cluster(rules), monkeypatch, on_end="keep") == ""


def test_a_permission_that_no_rule_lists_may_still_be_granted(monkeypatch):
    cluster = Cluster(LAUNCHER[1:])
    allowed = Answer(201, {"status": {"allowed": True}})
    with serve(lambda asked: allowed if asked.path == ACCESS else cluster(asked)) as server:
        start(server, monkeypatch)
        asked = [item.body["spec"]["resourceAttributes"] for item in server.asked if item.path == ACCESS]
    assert [item["verb"] for item in asked] == ["get", "create", "list", "watch", "patch", "delete"]
    assert {(item["namespace"], item["group"], item["resource"]) for item in asked} == {
        ("ns", "kubeflow.org", "tfjobs")
    }


@pytest.mark.parametrize("trouble", [refusal(403), refusal(404), refusal(500), "reset"])
def test_failed_reviews_give_no_finding(trouble, monkeypatch):
    cluster = Cluster()
    with serve(lambda asked: trouble if "selfsubject" in asked.path else cluster(asked)) as server:
        start(server, monkeypatch)


@pytest.mark.parametrize("trouble", [refusal(403), UNKNOWN_KIND, refusal(500), refusal(429), "reset"])
@pytest.mark.parametrize("where", ["secrets/hub", "resourcequotas", "limitranges", "dry run"])
def test_only_a_definite_no_is_a_finding(where, trouble, monkeypatch):
    secret = Answer(200, {"data": {"token": ""}})
    answers = {"secrets/hub": secret, where: trouble}
    message = findings(Cluster(**answers), monkeypatch, **SECRET)
    refused = where == "dry run" and trouble in (refusal(403), UNKNOWN_KIND)  # as the creation would be
    assert bool(message) == refused


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (refusal(400, "BadRequest", 'admission webhook "x" denied the request: no'), "refuses the TFJob: admission"),
        (refusal(422, "Invalid", "spec.replicas: Invalid value"), "refuses the TFJob: spec.replicas"),
        (refusal(404, "NotFound", 'namespaces "ns" not found'), "namespace ns does not exist: create it"),
        (refusal(400, "BadRequest", "admission webhook x does not support dry run"), ""),
        (refusal(409, "AlreadyExists", "it exists"), ""),
    ],
)
def test_dry_run(answer, says, monkeypatch):
    message = findings(Cluster(**{"dry run": answer}), monkeypatch)
    assert says in message
    assert bool(says) == bool(message)


@pytest.mark.parametrize(
    ("secret", "says"),
    [
        ({"data": {"token": ""}}, ""),
        ({"binaryData": {"token": ""}}, ""),
        ({"data": {"b": "", "a": ""}}, "Secret ns/hub has no key 'token': it has a, b"),
        ({}, "Secret ns/hub has no key 'token': it has none"),
    ],
)
def test_keys(secret, says, monkeypatch):
    message = findings(Cluster(**{"secrets/hub": Answer(200, secret)}), monkeypatch, **SECRET)
    assert says in message
    assert bool(says) == bool(message)
