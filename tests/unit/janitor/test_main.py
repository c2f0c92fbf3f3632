"""The program: what it accepts, and when it ends."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.support.waiting import until
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
    ("given", "path"),
    [([], "/namespaces/ml/tfjobs"), (["-n", "a"], "/namespaces/a/tfjobs"), (["-A"], "/apis/kubeflow.org/v1/tfjobs")],
)
def test_once(given, path, kubeconfig, capsys):
    with serve([NOTHING]) as server:
        kubeconfig(server)
        assert main(["--once", *given]) == 0
    assert server.asked[0].path.endswith(path)
    assert capsys.readouterr().out == "0 jobs looked at, 0 deletions due.\n"


def test_what_fails_ends_one_pass_with_13(kubeconfig, capsys):
    with serve([refusal(403, "Forbidden", "you may not")]) as server:
        kubeconfig(server)
        assert main(["--once"]) == 13
    assert "you may not\n" in capsys.readouterr().out


def test_a_cluster_without_operators(kubeconfig, capsys):
    with serve([refusal(404)]) as server:
        kubeconfig(server)
        assert main(["--once"]) == 0
    assert "knows no kind of job" in capsys.readouterr().out


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


@pytest.mark.parametrize(("given", "says"), BAD.values(), ids=BAD)
def test_bad_arguments(given, says, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(given)
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


def test_it_needs_the_core_alone():
    program = "import json, sys, tfsteps.janitor.__main__; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert imported.isdisjoint({"kfp", "hera", "kubernetes", "yaml", "tensorflow", "typer", "rich", "psutil"})
