"""What each Python program of a local run loads at its start: curves of Keras' `fit`, and nothing that harms it."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.support.jobs import run_job
from tfsteps.runs.events import State
from tfsteps.systems.local.process import STARTUP, VARIABLE
from tfsteps.tensorboard.event_files import ScalarReader

FIT = """import keras, numpy as np
def model():
    m = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    m.compile("sgd", "mse")
    return m
x, y = np.zeros((64, 4), "float32"), np.ones(64, "float32")
"""


def job(code, more=""):
    head = f"name: fit\nroles: {{worker: {{}}}}\nenv: {{TF_CPP_MIN_LOG_LEVEL: 2}}\n{more}"
    return f"{head}\ncommand: [python, -c, {json.dumps(FIT + code)}]"


def curves(status):
    """Return the steps of each curve."""
    reader, steps = ScalarReader(status.logs), {}
    for scalar in reader.poll():
        steps.setdefault(scalar.name, []).append(scalar.step)
    return steps


@pytest.mark.tensorflow
def test_a_fit_has_its_history_and_metrics_unless_a_callback_writes_them():
    code = """import os
m = model()
m.fit(x, y, epochs=3, verbose=0, validation_split=0.5)
m.fit(x, y, epochs=2, verbose=0)
class Other(keras.callbacks.Callback): pass
model().fit(x, y, 32, 1, 0, Other())
model().fit(x, y, verbose=0, callbacks=[keras.callbacks.TensorBoard(os.environ["TFSTEPS_LOG_DIR"] + "/mine")])
"""
    status = run_job(job(code, "outputs: {metrics: {loss: train/epoch_loss, val_loss: validation/epoch_loss}}")).status
    assert status.state is State.SUCCEEDED
    assert curves(status) == {
        "train/epoch_loss": [0, 1, 2, 3, 4],
        "validation/epoch_loss": [0, 1, 2],
        "model-2/train/epoch_loss": [0],
        "mine/train/epoch_loss": [0],  # by the program's own callback, and nothing is recorded twice
        "mine/train/epoch_learning_rate": [0],
    }
    assert status.metrics.keys() == {"loss", "val_loss"}
    assert not status.warnings


@pytest.mark.tensorflow
def test_the_metrics_of_an_unmodified_script_need_no_name(tmp_path):
    code = f"""m = model()
own = [keras.callbacks.TensorBoard({str(tmp_path / "mine")!r})]
m.fit(x, y, epochs=2, verbose=0, validation_data=(x[:32], y[:32]), callbacks=own)
model().fit(x, y, verbose=0)
"""
    status = run_job(job(code)).status
    assert status.state is State.SUCCEEDED
    assert status.metrics.keys() == {"loss", "val_loss"}
    assert not status.metric_notes


def python(folder, code, **env):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(STARTUP), str(folder)]), VARIABLE: "60", **env}
    return subprocess.run([sys.executable, "-c", code], env=env, text=True, capture_output=True, check=False)


@pytest.fixture
def logs(tmp_path):
    return {
        "TFSTEPS_LOG_DIR": str(tmp_path / "logs"),
        "TFSTEPS_ROLE": "worker",
        "TFSTEPS_INDEX": "0",
        "TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}}',
    }


def test_the_sitecustomize_of_the_environment_runs_too(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['RAN'] = 'yes'\nMINE = 1\n")
    code = "import os, sys; print(os.environ['RAN'], sys.modules['sitecustomize'].MINE, sys.path)"
    ran = python(tmp_path, code)
    assert ran.stdout.startswith("yes 1 "), ran
    assert str(STARTUP) not in ran.stdout


def test_an_error_in_it_is_reported_as_without_tfsteps(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import no_such_module\n")
    assert "No module named 'no_such_module'" in python(tmp_path, "print(1)").stderr


def test_nothing_is_printed_and_nothing_imported_that_a_program_does_not_need(tmp_path, logs):
    code = "import sys; print(sorted({'keras', 'json', 'struct', 'typing', 'contextlib'} & set(sys.modules)))"
    ran = python(tmp_path, code, **logs)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


FAKE = """
class Callback: pass
class callbacks: Callback = Callback
class Model:
    def fit(self, x=None, callbacks=None):
        for callback in callbacks or ():
            callback.on_epoch_end(0, {"loss": "no number"})
        return len(callbacks or ())
"""


def test_what_fails_in_the_recording_does_not_reach_the_program(tmp_path, logs):
    (tmp_path / "keras.py").write_text(FAKE)
    ran = python(tmp_path, "import keras; print(keras.Model().fit(1))", **logs)
    assert (ran.stdout, ran.stderr) == ("1\n", "")
    (tmp_path / "logs").write_text("not a folder")
    assert python(tmp_path, "import keras; print(keras.Model().fit(1))", **logs).stdout == "1\n"
    wrong = python(tmp_path, "import keras; keras.Model().fit(1, nonsense=2)", **logs)
    assert "unexpected keyword argument 'nonsense'" in wrong.stderr


@pytest.mark.parametrize(
    "change",
    [
        {"TFSTEPS_INDEX": "1"},
        {"TF_CONFIG": '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}}'},
        {"TFSTEPS_ROLE": "evaluator"},
        {"TFSTEPS_LOG_DIR": "gs://bucket/logs"},
        {"TF_CONFIG": "no JSON"},
        {"TFSTEPS_AUTOLOG": "0"},
    ],
)
def test_only_the_decisive_replica_records_unless_it_is_switched_off(tmp_path, logs, change):
    (tmp_path / "keras.py").write_text(FAKE)
    ran = python(tmp_path, "import keras; print(keras.Model().fit(1))", **{**logs, **change})
    assert (ran.stdout, ran.stderr) == ("0\n", "")


def test_a_program_without_keras_sees_the_usual_error(tmp_path, logs):
    code = "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]; import keras"
    assert "ModuleNotFoundError: No module named 'keras'" in python(tmp_path, code, **logs).stderr


@pytest.mark.parametrize("name", sorted(path.name for path in STARTUP.glob("*.py")))
def test_it_is_written_for_old_versions_of_python(name):
    import ast  # noqa: PLC0415

    ast.parse((pathlib.Path(STARTUP) / name).read_text(), feature_version=(3, 7))
