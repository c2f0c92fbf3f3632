"""Functions that run in replicas: TensorFlow, requirements, and their results."""

import zipfile

import pytest

from tfsteps import train_function
from tfsteps.api import RunFailed, compare, show


@train_function(workers=2, metrics=["total"])
def add_up(steps: int, rate: float = 0.5) -> dict:
    import tensorflow as tf  # noqa: PLC0415

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        total = tf.Variable(0.0)

    @tf.function
    def step():
        amount = strategy.reduce("SUM", strategy.run(lambda: tf.constant(rate)), axis=None)
        total.assign_add(amount)

    for _ in range(steps):
        step()
    return {"total": total.numpy(), "replicas": strategy.num_replicas_in_sync}


def test_a_function_trains_in_two_workers():
    ran = add_up.run(steps=3)
    assert ran.result == {"total": 3.0, "replicas": 2}
    assert ran.notes == ()
    assert ran.attempt.metrics == {"total": 3.0}
    again = add_up.run(steps=1, rate=0.25)
    assert compare(ran.attempt, again.attempt).rows["metric total"] == ["3", "0.5"]


@train_function
def fails(number: int):
    return [1][number]


def test_the_exception_of_a_function_names_its_line():
    with pytest.raises(RunFailed, match=r"IndexError: list index out of range at function\.py") as failed:
        fails.run(number=5)
    assert show(failed.value.attempt.run).attempts[0].failure.exception == "IndexError: list index out of range"


@train_function
def returns_a_set():
    return {1}


def test_a_result_that_is_not_json_fails_the_job():
    with pytest.raises(RunFailed, match="TypeError: the result contains a set, which is not JSON"):
        returns_a_set.run()


@train_function
def nothing():
    print("tfsteps result in the middle of a line is no result")


def test_a_function_that_returns_nothing():
    ran = nothing.run()
    assert (ran.result, ran.notes) == (None, ())
    assert "result null" in ran._repr_html_()


def uses_package() -> str:
    import msgspec  # noqa: PLC0415  of the environment of the replicas
    import shipped_package  # noqa: PLC0415

    return f"{shipped_package.VALUE} {bool(msgspec.__version__)}"


def test_requirements_are_installed_above_the_environment(tmp_path):
    wheel = tmp_path / "shipped_package-1.0-py3-none-any.whl"
    info = "shipped_package-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("shipped_package.py", "VALUE = 'installed'\n")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: shipped-package\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    function = train_function(workers=2, requirements=[f"shipped-package @ {wheel.as_uri()}"])(uses_package)
    assert function.run().result == "installed True"
    with pytest.raises(ModuleNotFoundError):
        uses_package()
