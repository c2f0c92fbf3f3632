"""`tfsteps schedules` on a cluster: what it lists, shows, changes and deletes."""

import datetime as dt
import inspect
import json
import os
from types import SimpleNamespace

import msgspec
import pytest

from tests.unit.cli.command import output_lines, tfsteps
from tests.unit.cli.jobs_on_cluster import write_kubeconfig
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.cli.commands import schedules
from tfsteps.engines import registry
from tfsteps.engines.argo import cronjob, cronworkflow, schedule_object
from tfsteps.schedule import from_plain
from tfsteps.schedule.rules import DateRecord, RuleState, when
from tfsteps.schedule.types import utc

NOW = int(dt.datetime.now(dt.UTC).timestamp()) // 3600 * 3600
HOURLY = from_plain({"cron": "0 * * * *"})
RULED = from_plain({"cron": "0 * * * *", "depends_on_past": True, "catch_up": True})
WORKFLOW = {
    "metadata": {"generateName": "nightly-", "labels": {"team": "vision"}},
    "spec": {"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "busybox:1.37"}}]},
}
MARK = {"tfsteps.dev/spec-hash": "1"}


def at(hours):
    """Return the time of the API so many hours before the last full hour."""
    return utc(NOW - hours * 3600)


def stored(item, uid, *, ours=True):
    meta = {"namespace": "ml", "uid": uid, "creationTimestamp": at(30), "resourceVersion": "1"}
    marks = {"annotations": MARK} if ours else {}
    return {**item, "metadata": {**item["metadata"], **meta, **marks}}


def run(name, planned, phase, owner="uid-cron", **labels):
    """Return a Workflow that Argo started for a date."""
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "creationTimestamp": at(planned),
            "labels": {"workflows.argoproj.io/cron-workflow": "hourly", **labels},
            "annotations": {"workflows.argoproj.io/scheduled-time": at(planned)},
            "ownerReferences": [{"apiVersion": "argoproj.io/v1alpha1", "kind": "CronWorkflow", "uid": owner}],
        },
        "spec": {},
        "status": {"phase": phase},
    }


APIS = {
    "/apis": {"groups": [{"versions": [{"groupVersion": "argoproj.io/v1alpha1"}]}]},
    "/apis/argoproj.io/v1alpha1": {"resources": [{"name": "workflows"}, {"name": "cronworkflows"}]},
}


class Objects:
    """The objects of a namespace by their collection."""

    def __init__(self):
        cron = stored(cronworkflow.cron_workflow(HOURLY, WORKFLOW, "hourly"), "uid-cron")
        foreign = stored(cronworkflow.cron_workflow(HOURLY, WORKFLOW, "foreign"), "uid-foreign", ours=False)
        *dependents, job = [
            stored(item, f"uid-{item['kind']}")
            for item in cronjob.objects(from_plain({"interval": "6h"}), WORKFLOW, "often", namespace="ml")
        ]
        self.by_kind = {
            "cronworkflows": [cron, foreign],
            "cronjobs": [job],
            "workflows": [
                run("hourly-1", 5, "Succeeded"),
                run("hourly-2", 4, "Failed"),
                run("hourly-3", 1, "Running"),
                run("earlier", 9, "Succeeded", owner="uid-of-an-earlier-schedule"),
            ],
            "jobs": [],
            "configmaps": [],
            **{f"{item['kind'].lower()}s": [item] for item in dependents},
        }
        ruled = stored(schedule_object.config_map(RULED, WORKFLOW, "ruled"), "uid-ruled")
        date = NOW - 2 * 3600
        records = (DateRecord(date - 3600, "missed"), DateRecord(date, "sent", "uid-ruled-run"))
        state = RuleState(decided_to=date, when=when(RULED), records=records)
        ruled["metadata"]["annotations"] = {**MARK, schedule_object.STATE: msgspec.json.encode(state).decode()}
        self.by_kind["configmaps"].append(ruled)
        failed = run(f"ruled-{date}", 2, "Failed", owner="uid-ruled")
        failed["metadata"] |= {"uid": "uid-ruled-run", "labels": {"tfsteps.dev/schedule-uid": "uid-ruled"}}
        failed["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "ruled", "uid": "uid-ruled"}
        ]
        self.by_kind["workflows"].append(failed)
        self.forbidden, self.changes = set(), []

    def __call__(self, asked):
        *_, parent, name = asked.path.split("/")
        if asked.path in APIS:
            return Answer(body=APIS[asked.path])
        if asked.method == "GET" and name in self.by_kind:
            if name in self.forbidden:
                return refusal(403, "Forbidden")
            terms = [term.partition("=") for term in asked.query.get("labelSelector", "").split(",") if term]
            items = [
                item
                for item in self.by_kind[name]
                if all(
                    (item["metadata"].get("labels") or {}).get(key) in ({value} if value else ANY)
                    for key, _, value in terms
                )
            ]
            return Answer(body={"items": items})
        if asked.method == "POST":
            self.changes.append(asked.body)
            return Answer(201, {**asked.body, "metadata": {**asked.body["metadata"], "uid": "u"}})
        there = next((item for item in self.by_kind.get(parent, ()) if item["metadata"]["name"] == name), None)
        if there is None:
            return refusal(404, "NotFound", about=name)
        if asked.method == "PATCH":
            assert asked.body["metadata"]["uid"] == there["metadata"]["uid"]
            there.setdefault("spec", {}).update(asked.body.get("spec", {}))
            there["metadata"].setdefault("annotations", {}).update(asked.body["metadata"].get("annotations", {}))
        if asked.method == "DELETE":
            assert asked.body["preconditions"] == {"uid": there["metadata"]["uid"]}
            self.by_kind[parent].remove(there)
            self.changes.append(f"{parent}/{name}")
            return Answer(body={"status": "Success"})
        return Answer(body=there)


class _Any:
    def __contains__(self, value):
        return value is not None


ANY = _Any()


@pytest.fixture
def objects(tmp_path, monkeypatch):
    monkeypatch.setattr("tfsteps.cli.commands.schedules.time", SimpleNamespace(time=lambda: NOW + 60.0))
    there = Objects()
    monkeypatch.delenv("KF_PIPELINES_ENDPOINT", raising=False)
    with serve(there) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
        yield there


def test_schedules_are_listed_with_their_next_and_last_runs(objects):
    header, hourly, often, _ = output_lines("schedules")
    assert header.split() == ["NAME", "KIND", "NAMESPACE", "SCHEDULE", "STATE", "NEXT", "LAST", "OUTCOME"]
    shown = [at(-1), at(1)]
    assert hourly.split()[:2] + hourly.split()[9:] == ["hourly", "CronWorkflow", "active"] + [
        part for time in shown for part in time.replace("T", " ").split()
    ] + ["running"]
    assert often.split() == ["often", "CronJob", "ml", "@every", "21600s", "active", "within", "6h", "-", "-"]


def test_a_schedule_of_the_janitor_shows_what_became_of_each_date_and_why_others_wait(objects):
    ruled = output_lines("schedules")[3].split()
    assert ruled[:3] + ruled[-1:] == ["ruled", "ConfigMap", "ml", "failed"]
    lines = output_lines("schedules", "show", "ruled")
    (waiting,) = [line for line in lines if line.startswith("waiting")]
    assert waiting.split(maxsplit=1)[1] == f"the run of {at(2)} failed, and `depends_on_past` is set"
    assert [line.split()[-1] for line in lines[-4:]] == ["waiting", "waiting", "failed", "missed"]
    assert "paused" in output_lines("schedules", "pause", "ruled")[0]
    marks = objects.by_kind["configmaps"][-1]["metadata"]["annotations"]
    assert marks[schedule_object.PAUSED] == "true"
    output_lines("schedules", "resume", "ruled")
    assert (marks[schedule_object.PAUSED], int(marks[schedule_object.ACCEPTED]) > NOW - 7200) == (None, True)
    assert "waiting    runs in progress: 1" in output_lines("schedules", "show", "ruled")
    assert output_lines("schedules", "run-now", "ruled") == [
        f"manual run {objects.changes[-1]['metadata']['name']} of ruled created"
    ]
    output_lines("schedules", "delete", "ruled", "--yes")
    assert objects.changes[-1] == "configmaps/ruled"


def test_the_records_have_every_date_and_say_which_have_no_run(objects):
    by_hand = run("by-hand", 2, "Succeeded")
    by_hand["metadata"] |= {"labels": {"tfsteps.dev/schedule": "hourly"}, "annotations": {}, "ownerReferences": []}
    objects.by_kind["workflows"].append(by_hand)
    code, out, err = tfsteps("schedules", "show", "hourly", "--output", "json")
    assert (code, err) == (0, "")
    records = [
        (item["planned"] and int(dt.datetime.fromisoformat(item["planned"]).timestamp() - NOW) // 3600, *rest)
        for item in json.loads(out)["records"]
        for rest in [(item["run"], item["outcome"], item["manual"])]
    ]
    assert [record for record in records if not (record[0] and record[0] > 0)] == [
        (0, "", "unknown", False),
        (-1, "hourly-3", "running", False),
        (None, "by-hand", "succeeded", True),
        (-2, "", "unknown", False),
        (-3, "", "unknown", False),
        (-4, "hourly-2", "failed", False),
        (-5, "hourly-1", "succeeded", False),
    ]
    assert "no run is known" in tfsteps("schedules", "show", "hourly")[1]


@pytest.mark.parametrize("name", ["hourly", "uid-cron", "often"])
def test_a_schedule_is_paused_and_resumed(objects, name):
    (there,) = [
        item
        for kind in ("cronworkflows", "cronjobs")
        for item in objects.by_kind[kind]
        if name in (item["metadata"]["name"], item["metadata"]["uid"])
    ]
    assert "paused" in output_lines("schedules", "pause", name)[0]
    assert there["spec"]["suspend"] is True
    assert "paused" in output_lines("schedules")[1 if name != "often" else 2]
    assert "next: " in output_lines("schedules", "resume", name)[0]
    assert there["spec"]["suspend"] is False


@pytest.mark.parametrize("name", ["hourly", "often"])
def test_a_run_by_hand_is_none_of_the_schedule(objects, name):
    printed = output_lines("schedules", "run-now", name)
    (body,) = objects.changes
    assert printed == [f"manual run {body['metadata'].pop('name')} of {name} created"]
    manual = {"tfsteps.dev/schedule": name, "tfsteps.dev/trigger": "manual"}
    assert body["metadata"] == {"generateName": f"{name}-manual-", "labels": {"team": "vision", **manual}}
    assert body["spec"] == WORKFLOW["spec"]


def test_a_schedule_is_deleted_with_what_was_created_with_it(objects):
    code, out, err = tfsteps("schedules", "delete", "often")
    assert (code, objects.changes) == (2, [])
    assert "nothing was removed: without a terminal, add --yes" in err
    objects.by_kind["roles"][0]["metadata"]["annotations"] = {}
    assert output_lines("schedules", "delete", "often", "--yes")[-1] == "CronJob often deleted"
    assert objects.changes == ["cronjobs/often", "configmaps/often", "rolebindings/often", "serviceaccounts/often"]
    code, out, _ = tfsteps("schedules", "delete", "hourly", "--yes")
    assert (code, [line.strip() for line in out.splitlines()][1:-1]) == (
        0,
        [
            "CronWorkflow ml/hourly",
            "run hourly-3 (running)",
            "run hourly-2 (failed)",
            "run hourly-1 (succeeded)",
        ],
    )


def test_what_may_not_be_listed_is_said_to_be_unknown(objects):
    objects.forbidden = {"workflows", "cronjobs"}
    code, out, err = tfsteps("schedules")
    assert (code, out.splitlines()[1].split()[-1]) == (0, "unknown")
    assert "cronjobs are not shown, without the permission to list them" in err
    assert "hourly: scheduled and manual runs are not known: no permission to list them" in err


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (("show",), "`show` needs the name of a schedule: hourly, often, ruled"),
        (("show", "foreign"), "no schedule 'foreign': hourly, often, ruled"),
        (("list", "hourly"), "`list` shows all schedules; write `tfsteps schedules show hourly`"),
        (("--engine", "local"), "engine 'local' has no schedules: use one of kfp, argo"),
    ],
)
def test_wrong_commands(objects, arguments, wrong):
    code, out, err = tfsteps("schedules", *arguments)
    assert (code, out, err) == (2, "", f"error: {wrong}\n")


@pytest.mark.parametrize(
    ("engine", "host", "variable", "chosen"),
    [
        (None, "", "", "argo"),
        (None, "https://kubeflow.example", "", "kfp"),
        (None, "", "KF_PIPELINES_ENDPOINT", "kfp"),
        (None, "", "OTHER_API", "other"),
        ("argo", "https://kubeflow.example", "", "argo"),
    ],
)
def test_without_a_name_the_engine_whose_api_is_named_is_chosen(engine, host, variable, chosen, monkeypatch):
    monkeypatch.delenv("KF_PIPELINES_ENDPOINT", raising=False)
    monkeypatch.setenv(variable or "UNRELATED", "https://other.example")
    other = msgspec.structs.replace(
        registry.plugin("kfp"), name="other", schedules=object(), is_configured=lambda _: "OTHER_API" in os.environ
    )
    engines = {"kfp": registry.plugin("kfp"), "other": other, "argo": registry.plugin("argo")}
    monkeypatch.setattr(schedules, "_ENGINES", engines)
    assert schedules._opener(engine, host) is engines[chosen].schedules


def test_the_help_names_the_schedules_of_the_engines_in_the_registry_and_no_engine_besides():
    source = inspect.getsource(schedules)
    assert not [word for word in ("Argo", "Kubeflow", "Workflow", "Pipelines") if word in source]
    shown = " ".join(" ".join(output_lines("schedules", "--help")).split())
    assert all(f"{name}: {plugin.schedule_objects}" in shown for name, plugin in schedules._ENGINES.items())
