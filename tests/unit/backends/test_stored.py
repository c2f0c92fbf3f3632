"""Commands over stored records: those of an address, and of a cluster whose objects are gone."""

import json

import msgspec
import pytest

from tests.unit.cli.command import output_lines, refused, tfsteps
from tests.unit.cli.commands.test_runs import links
from tests.unit.cli.jobs_on_cluster import kubeconfig, pod_of, tfjob
from tests.unit.runs.test_record_store import attempt_of, opened, put
from tests.wire.scripted import Answer, refusal
from tfsteps.cli.commands import runs
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.events import State
from tfsteps.runs.location import Location
from tfsteps.runs.status import ABANDONED, DETACHED, Incarnation, ReplicaStatus
from tfsteps.runs.store import RECORDS
from tfsteps.runs.usage import UsageSummary
from tfsteps.spec import from_plain

LINE = b"2026-01-01T00:00:00.000000Z worker-0 %b\n"
K = ("--on", "kubernetes")


@pytest.fixture
def address(tmp_path, monkeypatch):
    """Records of three runs, one of which is still running, on a machine that has launched nothing."""
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "elsewhere"))
    records = opened(tmp_path / "records")
    for run, state in (("good", State.SUCCEEDED), ("bad", State.FAILED), ("on", State.RUNNING)):
        attempt = attempt_of(run, log=LINE % run.encode(), state=state)
        job = from_plain({"name": "x", "image": "x:1", "command": ["echo", run], "roles": {"worker": {}}})
        (attempt.folder / "job.json").write_bytes(msgspec.json.encode(job))
        status = attempt.status()
        status.state, status.location, status.namespace, status.uid = state, Location.KUBERNETES, "ml", f"uid-{run}"
        status.metrics = {"accuracy": 0.5}
        attempt.write(status)
        attempt.report.write_text("<html>")
        put(records, attempt)
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "home"))
    return str(tmp_path / "records")


def listed(*options):
    return {
        item["run"]: item["state"] for item in json.loads("".join(output_lines("runs", *options, "--output", "json")))
    }


def test_an_address_alone(address):
    where = ("--from", address)
    assert listed(*where) == {"good": "succeeded", "bad": "failed", "on": "unknown"}
    assert "may go on" in "\n".join(output_lines("show", "on", *where))
    assert output_lines("logs", "good", *where) == ["[worker-0] good"]
    assert output_lines("report", "bad", *where)[0].endswith("report.html")
    assert json.loads("".join(output_lines("compare", "good", "bad", *where, "--output", "json")))["differences"]


def test_a_page_leads_to_copies_of_reports(address, tmp_path, monkeypatch):
    page = tmp_path / "page.html"
    assert output_lines("runs", "--from", address, "--html", page) == [str(page)]
    addresses = links(page)
    assert set(addresses) == {"good", "bad", "on"}
    assert all((page.parent / file).read_text() == "<html>" for file in addresses.values())
    monkeypatch.setattr(runs, "REPORTS", 1)
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "another"))
    output_lines("runs", "--from", address, "--html", page, "--sort", "task")
    assert len(links(page)) == 1


def test_commands_look_nowhere_else(address):
    error = refused("runs", "--from", address, *K)
    assert "cannot both hold" in error
    assert "is not an address of records; allowed" in refused("runs", "--from", "relative")


def test_an_address_that_cannot_be_read(tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path))
    code, out, err = tfsteps("runs", "--from", "/proc/none")
    assert (code, out) == (ExitCode.PLATFORM, "")
    assert err.startswith("error: records cannot be read: /proc/none: ")


def test_event_files_of_a_claim_are_named(address):
    error = tfsteps("tensorboard", "good", "--from", address)[2]
    assert "no event files that outlive its replicas" in error


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A cluster that has no job any more; yield the data of its ConfigMap, to be filled."""
    config = {}
    with kubeconfig(monkeypatch, tmp_path) as (server, _):
        answer = server.script

        def script(asked):
            if asked.path.endswith("/configmaps/tfsteps"):
                return Answer(body={"metadata": {"name": "tfsteps"}, "data": config})
            return refusal(404, "NotFound") if "/secrets/" in asked.path else answer(asked)

        monkeypatch.setattr(server, "script", script)
        yield config


def test_a_cluster_shows_what_its_records_know(address, cluster, monkeypatch):
    cluster[RECORDS] = "/records"
    monkeypatch.setenv(RECORDS, address)
    assert listed(*K) == {"good": "succeeded", "bad": "failed", "on": "unknown"}
    assert output_lines("logs", "good", *K) == ["[worker-0] good"]
    assert listed(*K, "--namespace", "other") == {}


def test_a_job_that_is_there_has_the_use_of_its_record(tmp_path, monkeypatch):
    """The objects of a cluster know neither the use, nor a replica whose pod is gone."""
    monkeypatch.setenv(RECORDS, str(tmp_path / "records"))
    item = tfjob("r1", ("Succeeded", "True", 9))
    attempt = attempt_of("r1", task="mnist")
    status = attempt.status()
    status.uid, status.usage = item["metadata"]["uid"], {"worker": UsageSummary(seconds=9.0, memory_peak=77)}
    status.replicas = [
        ReplicaStatus(role="worker", index=0, incarnations=[Incarnation(started=1.0, reason="OOMKilled")])
    ]
    attempt.write(status)
    put(opened(tmp_path / "records"), attempt)
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "elsewhere"))
    with kubeconfig(monkeypatch, tmp_path, item):
        (shown,) = json.loads("".join(output_lines("show", "r1", *K, "--output", "json")))["attempts"]
    assert shown["usage"]["worker"]["memory_peak"] == 77
    assert shown["replicas"][0]["incarnations"][0]["reason"] == "OOMKilled"


def test_lines_of_pods_that_are_gone_are_those_that_a_launcher_here_saved(tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "home"))
    saved, other = tfjob("r1", ("Succeeded", "True", 9)), tfjob("r1", ("Succeeded", "True", 9), task="other")
    attempt = attempt_of("r1", task="mnist", log=LINE % b"done")
    status = attempt.status()
    status.uid, status.location, status.namespace = saved["metadata"]["uid"], Location.KUBERNETES, "ml"
    attempt.write(status)
    pod = pod_of(other, "chief-0", "Succeeded", 0, ended=8)
    with kubeconfig(monkeypatch, tmp_path, saved, other, pod, logs={pod["metadata"]["name"]: [(3, "here")]}):
        code, out, err = tfsteps("logs", "r1", *K)
        assert (code, out.splitlines()) == (0, ["[mnist/worker-0] done", "[other/chief-0] here"])
        assert (
            f"{other['metadata']['name']} has no pod of worker-0, worker-1 any more, so that lines are missing" in err
        )
        assert saved["metadata"]["name"] not in err
        assert output_lines("logs", "r1", "--task", "other", "chief", *K) == ["[chief-0] here"]
        status.state, status.reason = State.LOST, ABANDONED
        attempt.write(status)
        code, out, err = tfsteps("logs", "r1", "--task", "mnist", *K)
        assert (code, out.splitlines()) == (0, ["[worker-0] done"])
        assert "did not follow it to its end; lines after its own end are missing" in err


def test_a_detached_job_of_this_machine_has_its_lines_on_its_cluster(tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "home"))
    attempt = attempt_of("r1", state=State.UNKNOWN)
    status = attempt.status()
    status.location, status.namespace, status.reason, status.detached = Location.KUBERNETES, "ml", DETACHED, True
    attempt.write(status)
    code, _, err = tfsteps("logs", "r1")
    assert code == 0
    assert "no launcher follows it, so lines may be missing here; `tfsteps logs r1 --on kubernetes --name" in err


def test_a_use_that_is_not_known_is_none_of_a_good_run(address, monkeypatch):
    monkeypatch.setattr("tfsteps.cli.commands.tune.DAYS", 1e6)  # the records have no time
    lines = output_lines("tune", "task", "--from", address)
    assert lines[0].startswith("task: 0 good runs of 3")
    assert "  not counted: good: the use of worker is not known" in lines


def test_a_page_of_a_cluster_leads_to_stored_reports(address, cluster, tmp_path, monkeypatch):
    monkeypatch.setenv(RECORDS, address)
    output_lines("runs", *K, "--html", tmp_path / "page.html")
    assert set(links(tmp_path / "page.html")) == {"good", "bad", "on"}


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_folder_of_the_pods_is_none_of_this_machine(address, cluster, scheme):
    cluster[RECORDS] = f"{scheme}{address}"
    code, _, err = tfsteps("runs", *K)
    assert code == 0
    assert f"namespace ml keeps records in {address} of its launchers' pods; mount that volume here, and set" in err


def test_a_folder_is_not_made_to_read_it(tmp_path, cluster, monkeypatch):
    monkeypatch.setenv(RECORDS, str(tmp_path / "none/there"))
    assert "this folder does not exist here" in tfsteps("runs", *K)[2]
    assert not (tmp_path / "none").exists()


def test_records_that_cannot_be_read_are_a_warning(cluster, monkeypatch):
    monkeypatch.setenv(RECORDS, "/proc/none")
    code, _, err = tfsteps("runs", *K)
    assert code == 0
    assert err.startswith("warning: runs whose objects are gone are not shown: records cannot be read: /proc/none: ")


def test_a_cluster_without_the_setting(cluster):
    assert tfsteps("runs", *K)[2].startswith("There are no runs in namespace ml of test;")
