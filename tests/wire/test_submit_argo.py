"""`tfsteps submit` to Argo as the API server sees it: everything is created, or a second call goes on."""

import pytest
import yaml

from tests.unit.cli.command import tfsteps, unread
from tests.unit.cli.jobs_on_cluster import write_kubeconfig
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.engines.argo import schedule_object

IMAGE = ("--image", "registry.example/tfsteps/launcher:1")
CRON_JOB = ("--every", "6h", "--scheduler", "cronjob", *IMAGE)
PARTS = ["serviceaccounts", "roles", "rolebindings", "configmaps", "cronjobs"]


def merged(old, patch):
    """Return an object after a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    old = old if isinstance(old, dict) else {}
    kept = {key: value for key, value in old.items() if key not in patch}
    return kept | {key: merged(old.get(key), value) for key, value in patch.items() if value is not None}


class Store:
    """Keeps what is created, and refuses what is there already; `refused` is a plural that it takes no more of.

    A PATCH must be of this uid and version, if it names them. `before_patch` is called before one that is no dry run.
    """

    def __init__(self):
        self.objects = {}
        self.refused = ""
        self.before_patch = lambda: None

    def patched(self, asked):
        there, meta = self.objects[tuple(asked.path.split("/")[-2:])], asked.body["metadata"]
        if "dryRun" not in asked.query:
            self.before_patch()
        if any(meta.get(key, there["metadata"][key]) != there["metadata"][key] for key in ("uid", "resourceVersion")):
            return refusal(409, "Conflict")
        merged_object = merged(there, asked.body)
        if "dryRun" not in asked.query:
            merged_object["metadata"]["resourceVersion"] = str(int(there["metadata"]["resourceVersion"]) + 1)
            there.clear()
            there |= merged_object
        return Answer(body=merged_object)

    @property
    def plurals(self):
        return [plural for plural, _ in self.objects]

    def __call__(self, asked):
        if asked.method == "GET":
            plural, name = asked.path.split("/")[-2:]
            there = self.objects.get((plural, name))
            return Answer(body=there) if there else refusal(404, "NotFound", about=name)
        if asked.method == "PATCH":
            return self.patched(asked)
        if asked.method != "POST" or "metadata" not in (asked.body or {}):
            return refusal(405, "MethodNotAllowed", f"{asked.method} {asked.path}")  # a test says what came of it
        plural, meta = asked.path.rpartition("/")[2], asked.body["metadata"]
        name = meta["name"]
        if (plural, name) in self.objects:
            return refusal(409, "AlreadyExists", about=name)
        filled = {"name": name, "namespace": "ml", "uid": f"uid-{plural}", "resourceVersion": "1"}
        created = {**asked.body, "metadata": {**meta, **filled}}
        if "dryRun" not in asked.query:
            if plural == self.refused:
                return refusal(403, "Forbidden")
            self.objects[plural, name] = created
        return Answer(201, created)


@pytest.fixture
def store(tmp_path, monkeypatch):
    there = Store()
    with serve(there) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
        yield there


@pytest.fixture
def workflow(tmp_path):
    container = {"image": "busybox:1.37", "command": ["true"]}
    spec = {"entrypoint": "main", "templates": [{"name": "main", "container": container}]}
    metadata = {"generateName": "nightly-"}
    body = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": metadata, "spec": spec}
    file = tmp_path / "nightly.yaml"
    file.write_text(yaml.safe_dump(body))
    return file


def test_closed_output_does_not_stop_the_creation(store, workflow):
    assert (unread("submit", workflow, *CRON_JOB), store.plurals) == (141, PARTS)


def test_a_second_call_creates_what_the_first_left_out(store, workflow):
    store.refused = "rolebindings"
    code, out, err = tfsteps("submit", workflow, *CRON_JOB)
    assert (code, out, store.plurals) == (2, "", PARTS[:2])
    assert "Role nightly created in ml\nnot everything was created; run the same command again" in err
    store.refused = ""
    code, out, _ = tfsteps("submit", workflow, *CRON_JOB)
    assert (code, store.plurals) == (0, PARTS)
    assert out.splitlines()[:3] == [
        "ServiceAccount nightly already exists in ml",
        "Role nightly already exists in ml",
        "RoleBinding nightly created in ml",
    ]
    assert tfsteps("submit", workflow, *CRON_JOB)[0] == 0


@pytest.mark.parametrize("change", ["not ours", "being deleted"])
def test_another_object_of_that_name_is_refused(store, workflow, change):
    assert tfsteps("submit", workflow, "--every", "6h")[0] == 0
    (there,) = store.objects.values()
    if change == "not ours":
        there["metadata"].pop("annotations")
    if change == "being deleted":
        there["metadata"]["deletionTimestamp"] = "2026-11-24T00:00:00Z"
    code, out, err = tfsteps("submit", workflow, "--every", "1h", "--yes")
    assert (code, out) == (2, "")
    assert "CronWorkflow nightly already exists in ml; delete it or choose another --name" in err


DEPENDS = "cron: 0 2 * * *\ndepends_on_past: true\n"


def test_a_rule_that_argo_does_not_keep_makes_a_schedule_of_the_janitor(store, workflow, tmp_path):
    file = tmp_path / "schedule.yaml"
    file.write_text(DEPENDS)
    code, out, err = tfsteps("submit", workflow, "--schedule", file)
    assert (code, store.plurals) == (0, ["configmaps"]), err
    assert "Its runs are started by a janitor with --schedules" in out
    item = store.objects["configmaps", "nightly"]
    item["metadata"]["annotations"] |= {schedule_object.PAUSED: "true", schedule_object.STATE: "{}"}
    file.write_text(DEPENDS + "timeout: 1h\n")
    code, out, err = tfsteps("submit", workflow, "--schedule", file, "--yes")
    assert (code, "ConfigMap nightly updated in ml" in out) == (0, True), err
    assert "    timeout: 3600" in err
    marks = store.objects["configmaps", "nightly"]["metadata"]["annotations"]
    assert (marks[schedule_object.PAUSED], marks[schedule_object.STATE]) == ("true", "{}"), "what was decided stays"
    code, _, err = tfsteps("submit", workflow, "--schedule", file, "--scheduler", "cronworkflow")
    assert (code, "depends_on_past: true is not supported by Argo Workflows" in err) == (2, True)


@pytest.mark.parametrize("first", [(), ("--scheduler", "cronjob", *IMAGE), ("--scheduler", "janitor")])
@pytest.mark.parametrize("second", [(), ("--scheduler", "cronjob", *IMAGE), ("--scheduler", "janitor")])
def test_a_name_has_one_scheduler(store, workflow, first, second):
    assert tfsteps("submit", workflow, "--every", "6h", *first)[0] == 0
    before = store.plurals
    code, _, err = tfsteps("submit", workflow, "--every", "6h", *second)
    assert code == (0 if first == second else 2)
    assert ("each date would start two runs" in err) == (first != second)
    assert store.plurals == before


def submitted_twice(store, workflow, first, second):
    """Submit a schedule, note what a controller and a user do, and submit another one of its name."""
    assert tfsteps("submit", workflow, *first)[0] == 0
    there = store.objects[list(store.objects)[-1]]
    there["spec"]["suspend"] = True
    there["status"] = {"lastScheduledTime": "2026-11-24T00:00:00Z"}
    return tfsteps("submit", workflow, *second), there


def test_a_changed_schedule_is_not_updated_without_consent(store, workflow):
    (code, out, err), there = submitted_twice(store, workflow, ("--every", "6h"), ("--every", "1h"))
    assert (code, out, there["spec"]["schedules"]) == (2, "", ["@every 21600s"])
    assert "-  - '@every 21600s'\n+  - '@every 3600s'" in err
    assert "nothing was changed: without a terminal, add --yes" in err


@pytest.mark.parametrize("options", [(), ("--scheduler", "cronjob", *IMAGE)])
def test_a_changed_schedule_is_updated_as_a_whole(store, workflow, options):
    first = ("--cron", "0 2 * * *", "--timezone", "Asia/Tokyo", *options)
    (code, out, err), there = submitted_twice(store, workflow, first, ("--every", "1h", *options, "--yes"))
    kind = there["kind"]
    assert (code, f"{kind} nightly updated in ml" in out) == (0, True), err
    assert "Asia/Tokyo" in err
    assert not {"timezone", "timeZone"} & set(there["spec"]), "a field that is not set any more is removed"
    assert there["spec"]["suspend"], "a schedule that is paused stays paused"
    assert there["status"] == {"lastScheduledTime": "2026-11-24T00:00:00Z"}
    code, out, err = tfsteps("submit", workflow, "--every", "1h", *options)
    assert (code, f"{kind} nightly already exists in ml" in out) == (0, True), err


def test_a_changed_workflow_of_a_cron_job_is_shown_by_its_fields(store, workflow):
    assert tfsteps("submit", workflow, *CRON_JOB)[0] == 0
    workflow.write_text(workflow.read_text().replace("busybox:1.37", "busybox:1.38"))
    code, out, err = tfsteps("submit", workflow, *CRON_JOB, "--yes")
    assert (code, [line for line in out.splitlines() if "updated" in line]) == (0, ["ConfigMap nightly updated in ml"])
    assert [line.strip("+- ") for line in err.splitlines() if "image:" in line] == [
        "image: busybox:1.37",
        "image: busybox:1.38",
    ]


@pytest.mark.parametrize(("field", "code"), [("status", 0), ("spec", 2)])
def test_what_others_change_meanwhile_is_not_overwritten(store, workflow, field, code):
    def meanwhile():
        store.before_patch = lambda: None
        (there,) = store.objects.values()
        there["metadata"]["resourceVersion"] = "7"
        there[field] = {**there.get(field, {}), "schedules": ["@every 5s"]}

    assert tfsteps("submit", workflow, "--every", "6h")[0] == 0
    store.before_patch = meanwhile
    done, _, err = tfsteps("submit", workflow, "--every", "1h", "--yes")
    (there,) = store.objects.values()
    assert (done, there["spec"]["schedules"]) == (code, ["@every 5s" if code else "@every 3600s"]), err
    assert ("was changed meanwhile" in err) == bool(code)


def test_a_missing_claim_is_reported_before_anything_is_created(store, workflow):
    claims = ["here", "gone", "{{workflow.parameters.claim}}", "{{inputs.parameters.x}}"]
    body = yaml.safe_load(workflow.read_text())
    body["spec"]["arguments"] = {"parameters": [{"name": "claim"}]}
    template = body["spec"]["templates"][0] | {"inputs": {"parameters": [{"name": "x", "value": "y"}]}}
    mounted = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(claims)]
    body["spec"] |= {"volumes": mounted[:2], "templates": [{**template, "volumes": mounted[2:]}]}
    workflow.write_text(yaml.safe_dump(body))
    store.objects["persistentvolumeclaims", "here"] = {"kind": "PersistentVolumeClaim", "metadata": {"name": "here"}}
    for options in ((), ("--every", "6h"), (*CRON_JOB, "--name", "other")):
        code, _, err = tfsteps("submit", workflow, "-p", "claim=typo", *options)
        missing = sorted(line.partition(" is missing on test: ")[0] for line in err.splitlines() if "warning: " in line)
        assert (code, missing) == (0, [f"warning: PersistentVolumeClaim ml/{name}" for name in ("gone", "typo")]), err


NAMED = {
    "serviceAccountName": "{{workflow.parameters.x}}",
    "volumes": [
        {"name": "s", "secret": {"secretName": "files"}},
        {"name": "o", "secret": {"secretName": "o", "optional": True}},
        {"name": "c", "projected": {"sources": [{"configMap": {"name": "parts"}}]}},
    ],
}
CONTAINER = {
    "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "here", "key": "k"}}}, {"name": "B", "value": "b"}],
    "envFrom": [{"configMapRef": {"name": "whole"}}, {"secretRef": {"name": "{{inputs.parameters.x}}"}}],
}
WITHOUT = ["ServiceAccount ml/who", "Secret ml/files", "ConfigMap ml/parts", "ConfigMap ml/whole"]


@pytest.mark.parametrize(
    "command",
    [("submit",), ("lint", "--on", "kubernetes"), ("lint", "--on", "kubernetes", "-n", "ml"), ("lint",)],
    ids=" ".join,
)
def test_whatever_pods_name_and_is_missing_is_reported(store, workflow, command):
    body = yaml.safe_load(workflow.read_text())
    template = body["spec"]["templates"][0]
    template |= {
        "container": template["container"] | CONTAINER,
        "inputs": {"parameters": [{"name": "x", "value": "y"}]},
    }
    template["metadata"] = {"labels": {"env": "prod"}}
    body["spec"] |= {**NAMED, "arguments": {"parameters": [{"name": "x", "value": "who"}]}}
    body["metadata"] |= {"namespace": "other"} if "-n" in command else {}
    workflow.write_text(yaml.safe_dump(body))
    store.objects["secrets", "here"] = {"kind": "Secret", "metadata": {"name": "here"}}
    code, _, err = tfsteps(command[0], workflow, *command[1:])
    expected = [] if command == ("lint",) else WITHOUT
    missing = [item for item in WITHOUT if f"{item} is missing on test: " in err]
    assert (code, missing, err.count("is missing")) == (0, expected, len(expected)), err
    assert err.count("pods that run as it are refused") == err.count("ServiceAccount")


def test_a_cluster_that_is_not_there_ends_a_lint_that_asks_it(workflow, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert tfsteps("lint", workflow)[0] == 0
    assert tfsteps("lint", workflow, "-n", "ml")[0] == 2, "no cluster is asked by accident"
    body = yaml.safe_load(workflow.read_text())
    body["spec"]["serviceAccountName"] = "who"
    workflow.write_text(yaml.safe_dump(body))
    code, _, err = tfsteps("lint", workflow, "--on", "kubernetes")
    assert (code, "kubeconfig" in err) == (2, True), err


def test_a_run_is_never_taken_for_an_earlier_one(store, workflow):
    assert tfsteps("submit", workflow, "--name", "once")[0] == 0
    code, _, err = tfsteps("submit", workflow, "--name", "once")
    assert (code, "Workflow once already exists in ml" in err) == (2, True)


@pytest.mark.parametrize("context", [(), ("--context", "test")])
def test_the_commands_that_are_printed_lead_to_the_run(store, workflow, context):
    code, out, _ = tfsteps("submit", workflow, *context)
    options = "".join(f" {word}" for word in context)
    [(_, name)] = [key for key in store.objects if key[0] == "workflows"]
    assert (code, out.splitlines()) == (
        0,
        [
            f"Workflow {name} created in ml",
            f"Watch it: kubectl{options} --namespace ml get workflow {name} --watch",
            f"Its jobs: tfsteps show uid-workflows --on kubernetes{options} --namespace ml",
        ],
    )


TEAMS = """
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {{name: teams, namespace: ml, uid: u, resourceVersion: "1"}}
spec:
  templates:
    - name: fit
      dag:
        tasks:
          - name: train
            templateRef: {{name: tfsteps, template: train}}
            arguments:
              parameters:
                - {{name: name, value: mnist}}
                - {{name: image, value: "acme/mnist:1"}}
                - {{name: workers, value: "{workers}"}}
"""
CALL = {"name": "main", "dag": {"tasks": [{"name": "fit", "templateRef": {"name": "teams", "template": "fit"}}]}}


@pytest.fixture
def calls_teams(workflow):
    body = yaml.safe_load(workflow.read_text())
    body["spec"]["templates"] = [CALL]
    workflow.write_text(yaml.safe_dump(body))
    return workflow


@pytest.mark.parametrize(
    ("workers", "wrong"),
    [
        ("2", ""),
        ("-2", "template main, fit > template fit, train: workers: -2 is out of range"),
        ("200", "task fit/train: roles: 200 has too many"),
    ],
)
def test_jobs_in_a_template_of_the_cluster_are_checked(store, calls_teams, workers, wrong):
    store.objects["workflowtemplates", "teams"] = yaml.safe_load(TEAMS.format(workers=workers))
    limits = {"data": {"settings.yaml": "limits: {replicas: 3}"}, "metadata": {"name": "tfsteps"}}
    store.objects["configmaps", "tfsteps"] = limits
    code, _, err = tfsteps("submit", calls_teams)
    assert (code, wrong in err, "workflows" in store.plurals) == ((2, True, False) if wrong else (0, True, True)), err
    assert "are not checked" not in err


def test_a_call_that_does_not_fit_the_template_of_the_cluster_is_refused(store, calls_teams):
    store.objects["workflowtemplates", "teams"] = yaml.safe_load(TEAMS.format(workers=1).replace("fit", "other"))
    code, _, err = tfsteps("submit", calls_teams)
    assert (code, "templateRef.template: teams has no template 'fit'. Allowed: other" in err) == (2, True), err


@pytest.mark.parametrize("workers", [1, 5])
def test_templates_of_both_kinds_with_one_name_are_not_taken_for_each_other(store, calls_teams, workers):
    body = yaml.safe_load(calls_teams.read_text())
    of_cluster = {"name": "other", "templateRef": {"name": "teams", "template": "other", "clusterScope": True}}
    body["spec"]["templates"] = [{"name": "main", "dag": {"tasks": [*CALL["dag"]["tasks"], of_cluster]}}]
    calls_teams.write_text(yaml.safe_dump(body))
    store.objects["workflowtemplates", "teams"] = yaml.safe_load(TEAMS.format(workers=1))
    teams = TEAMS.format(workers=workers).replace("fit", "other").replace("kind: Workflow", "kind: ClusterWorkflow")
    store.objects["clusterworkflowtemplates", "teams"] = yaml.safe_load(teams)
    limits = {"data": {"settings.yaml": "limits: {replicas: 3}"}, "metadata": {"name": "tfsteps"}}
    store.objects["configmaps", "tfsteps"] = limits
    code, _, err = tfsteps("submit", calls_teams)
    assert (code, "workflows" in store.plurals) == ((0, True) if workers == 1 else (2, False)), err
    assert "are not checked" not in err


def test_a_template_that_is_not_answered_is_a_warning(store, calls_teams):
    code, _, err = tfsteps("submit", calls_teams)
    assert (code, "workflows" in store.plurals) == (0, True), err
    assert "the jobs of WorkflowTemplate teams are not checked, only by their launchers: " in err
