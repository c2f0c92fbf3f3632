"""The program: what it accepts, and when it ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.support.waiting import until
from tests.unit.janitor.test_sweep import cluster, deleted, job
from tests.unit.systems.kubernetes.objects import condition
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.janitor.__main__ import main


@pytest.fixture
def kubeconfig(tmp_path, monkeypatch):
    """Return a function that makes a server the present cluster."""

    def use(server):
        config = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "namespace": "ml"}}],
            "current-context": "c",
        }
        (tmp_path / "config").write_text(json.dumps(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))

    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return use


NOTHING = Answer(body={"metadata": {}, "items": []})


@pytest.mark.parametrize(
    ("arguments", "path"),
    [([], "/namespaces/ml/tfjobs"), (["-n", "a"], "/namespaces/a/tfjobs"), (["-A"], "/apis/kubeflow.org/v1/tfjobs")],
)
def test_once(arguments, path, kubeconfig, capsys):
    with serve([NOTHING]) as server:
        kubeconfig(server)
        assert main(["--once", *arguments]) == 0
    assert server.asked[0].path.endswith(path)
    assert capsys.readouterr().out == "0 jobs looked at, 0 deletions due.\n"


def test_schedules_are_an_option(kubeconfig, capsys):
    with serve([NOTHING]) as server:
        kubeconfig(server)
        assert main(["--once", "--schedules"]) == 0
    assert server.asked[0].path.endswith("/namespaces/ml/configmaps")
    assert "0 schedules looked at, 0 runs due" in capsys.readouterr().out


def test_what_fails_ends_one_pass_with_13(kubeconfig, capsys):
    with serve([refusal(403, "Forbidden", "you may not")]) as server:
        kubeconfig(server)
        assert main(["--once"]) == 13
    assert "you may not\n" in capsys.readouterr().out


def test_a_cluster_without_operators(kubeconfig, capsys):
    with serve([refusal(404)]) as server:
        kubeconfig(server)
        assert main(["--once"]) == 0
    assert "serves no supported job kind" in capsys.readouterr().out


def test_no_cluster(kubeconfig, capsys):
    assert main(["--once"]) == 2
    assert "The janitor cannot start: there is no kubeconfig" in capsys.readouterr().out


BAD = {
    "no time": (["--period", "soon"], "'soon' is not a time from 1s to 1d"),
    "too short": (["--period", "0.5s"], "'0.5s' is not a time from 1s to 1d"),
    "too long": (["--period", "2d"], "'2d' is not a time from 1s to 1d"),
    "twice where": (["-A", "-n", "ml"], "not allowed with argument"),
    "twice when": (["--once", "--period", "60s"], "not allowed with argument"),
}


@pytest.mark.parametrize(("arguments", "says"), BAD.values(), ids=BAD)
def test_bad_arguments(arguments, says, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert says in capsys.readouterr().err


def test_sigterm_ends_it(kubeconfig):
    with serve([NOTHING]) as server:
        kubeconfig(server)
        process = subprocess.Popen(
            [sys.executable, "-m", "tfsteps.janitor", "--period", "1s"],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        until(lambda: len(server.asked) > 1)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out == "Looking at the jobs of namespace ml every 1s.\n"


def free_port():
    with socket.create_server(("", 0)) as taken:
        return taken.getsockname()[1]


def scraped(port, path="/metrics"):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read().decode()


def passes(port):
    return int(re.search(r"^tfsteps_janitor_passes_total (\d+)$", scraped(port), re.MULTILINE)[1])


def test_metrics_are_served_and_hanging_scrapers_do_not_stop_the_passes(kubeconfig):
    port = free_port()
    with serve([NOTHING]) as server:
        kubeconfig(server)
        server.ahead = 86400
        command = [sys.executable, "-m", "tfsteps.janitor", "--period", "1s", "--metrics-port", str(port)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
        until(lambda: server.asked)
        until(lambda: passes(port))
        hanging = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        for client in hanging:
            client.sendall(b"GET /metrics HTTP/1.1\r\n")
        before, asked = passes(port), len(server.asked)
        until(lambda: len(server.asked) > asked + 1 and passes(port) > before + 1)
        assert scraped(port, "/healthz") == "ok\n"
        text = scraped(port)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60)[0] == "Looking at the jobs of namespace ml every 1s.\n"
    assert process.returncode == 0
    for client in hanging:
        client.close()
    finished = float(re.search(r"^tfsteps_janitor_last_pass_timestamp_seconds (\S+)$", text, re.MULTILINE)[1])
    assert abs(finished - time.time() - 86400) < 60, "by the API server's clock"
    assert 'tfsteps_janitor_deletions_total{kind="TFJob",reason="retention"} 0\n' in text


def test_a_port_that_is_in_use(kubeconfig, capsys):
    with serve([NOTHING]) as server, socket.create_server(("", 0)) as taken:
        kubeconfig(server)
        port = taken.getsockname()[1]
        assert main(["--metrics-port", str(port)]) == 2
    assert capsys.readouterr().out == (
        f"The janitor cannot start: --metrics-port {port} cannot be used: Address already in use. "
        "Choose a free port, or 0 for no metrics.\n"
    )


@pytest.mark.parametrize("arguments", [["--keep-failed", "1h"], []], ids=["option", "variable"])
def test_the_default_retention_reaches_the_pass(arguments, kubeconfig, capsys, monkeypatch):
    if not arguments:
        monkeypatch.setenv("TFSTEPS_JANITOR_PRESET", "cube-studio")
    item = job("a", "Failed", owner=None)
    item["status"]["conditions"] = [{**condition("Failed"), "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    with cluster(jobs=[item]) as server:
        kubeconfig(server)
        assert main(["--once", *arguments]) == 0
        assert deleted(server) == [("a", "uid-a")]
        assert "--keep-failed is" in capsys.readouterr().out


def test_it_needs_the_core_alone():
    program = "import json, sys, tfsteps.janitor.__main__; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert imported.isdisjoint({"kfp", "hera", "kubernetes", "yaml", "tensorflow", "typer", "rich", "psutil"})
