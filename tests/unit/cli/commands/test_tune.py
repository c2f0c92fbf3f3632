"""`tfsteps tune`: what is printed, written and refused."""

import datetime as dt
import json
import re
import subprocess

import msgspec
import pytest

from tests.unit.cli.command import COMMAND, output_lines, refused, tfsteps
from tests.unit.cli.jobs_on_cluster import kubeconfig, tfjob
from tests.unit.cli.statuses import saved
from tests.unit.report.test_html import Reader
from tests.unit.test_whole_file import fill_disk
from tfsteps import spec
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.usage import UsageSummary

JOB = """\
name: mnist  # the job
image: mnist:1
command: [python, train.py]
resources: {cpu: 4, memory: 8Gi}
roles: {worker: {replicas: 2}}
"""


def recorded(count=10, pipeline="digits", task="train", text=JOB, **more):
    """Write the records of runs whose workers used 1 core and 1 GiB."""
    for number in range(count):
        run = f"{task}-{number}"
        usage = {"worker": UsageSummary(seconds=110.0, cpu_peak=1.0, memory_peak=1 << 30)}
        identity = Identity(run=run, task=task, pipeline=pipeline)
        attempt = saved(**{"identity": identity, "state": State.SUCCEEDED, "usage": usage, **more})
        (attempt.folder / "job.json").write_bytes(msgspec.json.encode(spec.parse(text)))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return path


def test_a_pipeline(tmp_path):
    recorded()
    recorded(3, task="other")
    page = tmp_path / "page.html"
    lines = output_lines("tune", "digits", "--html", page)
    assert "digits train: 10 good runs of 10 in the last 30 days" in lines
    assert "digits other: 3 good runs of 3 in the last 30 days" in lines
    assert "no recommendation: 3 good runs of the last 30 days, and 10 are needed" in lines
    rows = [line.split() for line in lines if line.startswith("worker ")]
    assert [row[:6] for row in rows] == [
        ["worker", "cpu", "4", "1", "cores", "1400m"],
        ["worker", "memory", "8Gi", "1.0", "GiB", "1536Mi"],
        ["worker", "cpu", "4", "1", "cores", "-"],
        ["worker", "memory", "8Gi", "1.0", "GiB", "-"],
    ]
    text = Reader(page.read_text()).text
    assert "recommended 1400m" in text
    assert "largest use of 10 runs; + 40%" in text


def test_the_picture_has_the_request_if_it_is_not_the_limit():
    recorded(text=JOB.replace("cpu: 4", "cpu: 2~4"))
    (head,) = [line for line in output_lines("tune", "digits") if line.startswith("cpu of worker")]
    assert re.search(r"[|│] limit 4, [:╎] recommended [0-9]+m, ['┆] request 2$", head), head
    (head,) = [line for line in output_lines("tune", "digits") if line.startswith("memory of worker")]
    assert "request" not in head


def test_runs_outside_of_pipelines_are_found_by_the_job(file):
    recorded(pipeline="", task="mnist")
    assert "mnist: 10 good runs of 10 in the last 30 days" in output_lines("tune", "-f", file)
    (tuning,) = json.loads(
        "\n".join(output_lines("tune", "mnist", "--runs", "11", "--headroom", "1", "--output", "json"))
    )
    assert (tuning["good_runs"], tuning["needed_runs"], tuning["headroom"]) == (10, 11, 1.0)


def test_runs_of_another_program_do_not_count(file):
    recorded(text=JOB + "args: [x]\n")
    assert "  not counted: train-9 and 9 more: another job: args of worker" in output_lines(
        "tune", "digits", "-f", file
    )
    assert "digits train: 10 good runs of 10 in the last 30 days" in output_lines("tune", "digits"), (
        "the newest run's own job"
    )
    assert output_lines("tune", "digits", "-f", file, "--ignore", "args", "--write") == [f"{file}: written"]
    assert file.read_text() == JOB.replace("cpu: 4, memory: 8Gi", "cpu: 1400m, memory: 1536Mi")


def test_a_job_file_is_written_whole_or_not_at_all(file, monkeypatch):
    recorded()
    file.chmod(0o640)
    with monkeypatch.context() as full:
        fill_disk(full)
        assert "No space left" in refused("tune", "digits", "-f", file, "--write")
    assert (file.read_text(), [*file.parent.glob(".*.new")]) == (JOB, [])
    link = file.with_name("link.yaml")
    link.symlink_to(file)
    output_lines("tune", "digits", "-f", link, "--write")
    assert link.is_symlink()
    assert "cpu: 1400m" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o640


def test_old_runs_do_not_count():
    recorded(created=0.0)
    assert "'digits' has no runs of the last 30 days" in refused("tune", "digits")


def test_settings_of_the_platform(tmp_path, monkeypatch):
    recorded()
    settings = tmp_path / "settings.yaml"
    monkeypatch.setenv("TFSTEPS_SETTINGS", str(settings))
    settings.write_text("limits: {memory: 1200Mi}\ntuning: {headroom: 0.9}\n")
    lines = output_lines("tune", "digits")
    (row,) = (line for line in lines if line.startswith("worker  memory"))
    assert row.split()[5] == "1200Mi"
    assert row.endswith("largest use of 10 runs; + 90%; at most 1200Mi by limits.memory")
    settings.write_text("tuning: {headroom: -1, runs: 0}\n")
    error = refused("tune", "digits")
    assert "tuning.headroom" in error
    assert "a whole number from 1 to 1000" in error


def test_runs_have_what_the_settings_add_to_the_job_file(file, tmp_path, monkeypatch):
    recorded(text=JOB.replace("mnist:1", "registry.example/mnist:1") + "env: {PROXY: 'http://proxy'}\n")
    settings = tmp_path / "settings.yaml"
    settings.write_text("image_registry: registry.example\ndefaults: {env: {PROXY: 'http://proxy'}}\n")
    assert "digits train: 0 good runs of 10 in the last 30 days" in output_lines("tune", "digits", "-f", file)
    monkeypatch.setenv("TFSTEPS_SETTINGS", str(settings))
    assert "digits train: 10 good runs of 10 in the last 30 days" in output_lines("tune", "digits", "-f", file)
    settings.write_text("limits: {cpu: 1}\n")
    assert "digits train: 0 good runs of 10 in the last 30 days" in output_lines("tune", "digits", "-f", file), (
        "refused"
    )


def test_the_variable_that_switches_it_off(file):
    recorded(text=JOB + "env: {NO_RESOURCE_CHECK: 'true'}\n")
    lines = output_lines("tune", "digits")
    assert any(
        line.startswith("no recommendation: NO_RESOURCE_CHECK of the worker of the job is 'true'") for line in lines
    )
    code, out, err = tfsteps("tune", "digits", "-f", file, "--write")
    assert (code, out) == (2, "")
    assert "NO_RESOURCE_CHECK" in err
    assert file.read_text() == JOB


REFUSED = [
    (("tune",), "which pipeline is not known; write its name, or the job file: -f job.yaml"),
    (("tune", "digits", "--diff"), "--diff needs the job file; add -f job.yaml"),
    (("tune", "digits", "--write", "-f", "-"), "--write needs the job file"),
    (("tune", "digits", "--ignore", "cpu"), "--ignore 'cpu' is not a compared field; allowed: replicas, image"),
    (("tune", "nope"), "'nope' has no runs of the last 30 days in "),
    (("tune", "digits", "nope"), "task 'nope' of 'digits' has no runs"),
    (("tune", "digits", "--headroom", "-1"), "'--headroom': '-1' is not a number from 0 to 10; write"),
    (("tune", "digits", "--headroom", "nan"), "'--headroom': 'nan' is not a number from 0 to 10"),
    (("tune", "digits", "--headroom", "inf"), "'--headroom': 'inf' is not a number from 0 to 10"),
    (("tune", "digits", "-f", "missing.yaml"), "job file 'missing.yaml' does not exist"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "message"), REFUSED)
def test_refusals(command, message):
    recorded(1)
    assert message in refused(*command)


def test_a_job_file_is_of_one_task(file):
    recorded(1)
    recorded(1, task="other")
    assert "digits has several tasks: " in refused("tune", "digits", "-f", file)


@pytest.mark.parametrize(("options", "needed"), [((), 3), (("--namespace", "other"), 4)])
def test_a_file_of_settings_has_the_project_of_the_contexts_namespace(file, tmp_path, monkeypatch, options, needed):
    settings = tmp_path / "settings.yaml"
    settings.write_text(
        "projects: {p: {namespaces: [ml], tuning: {runs: 3}}, q: {namespaces: [other], tuning: {runs: 4}}}"
    )
    monkeypatch.setenv("TFSTEPS_SETTINGS", str(settings))
    jobs = [tfjob("r1", ("Succeeded", "True", 1), namespace=namespace) for namespace in ("ml", "other")]
    for job in jobs:
        job["metadata"]["creationTimestamp"] = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    with kubeconfig(monkeypatch, tmp_path, *jobs):
        lines = output_lines("tune", "-f", file, "--on", "kubernetes", *options)
    assert any(line.endswith(f"and {needed} are needed") for line in lines), lines


def test_a_difference_that_cannot_be_printed_is_no_fault_of_the_job_file(file, monkeypatch):
    recorded()
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")  # the print fails, not the last flush
    with open("/dev/full", "w") as full:  # noqa: PTH123  a device
        command = [COMMAND, "tune", "digits", "-f", file, "--diff"]
        done = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.partition(";")[0]) == (
        13,
        "error: standard output cannot be written: No space left on device",
    )
