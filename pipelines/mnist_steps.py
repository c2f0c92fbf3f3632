"""The steps around training: `python mnist_steps.py STEP --executor_input JSON`."""

import os
import shutil
import sys

import digits

from tfsteps.engines.kfp.executor import ExecutorInput

EXPORT, REJECT = "export", "reject"
"""What `evaluate` decides."""


def prepare(task: ExecutorInput) -> str:
    """Draw the data set."""
    data, wanted = task.output("data"), task.parameters
    digits.save(data.path, train=wanted["train"], test=wanted["test"], seed=wanted["seed"])
    task.write({"file": str(data.path)}, {"data": {"train": wanted["train"], "test": wanted["test"]}})
    return f"{wanted['train'] + wanted['test']} digits drawn, {data.path.stat().st_size / 1e6:.1f} MB"


def evaluate(task: ExecutorInput) -> str:
    """Score the model on digits that it has not seen, and decide whether it is exported."""
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="2", TF_ENABLE_ONEDNN_OPTS="0")
    import tensorflow as tf  # noqa: PLC0415  the other steps need not wait for it

    images, labels = digits.load(task.parameters["file"], "test")
    model = tf.saved_model.load(_place(task))
    accuracy = float((model(tf.constant(images)).numpy().argmax(1) == labels).mean())
    limit = task.parameters["accuracy"]
    decision = EXPORT if accuracy >= limit else REJECT
    task.write({"accuracy_seen": accuracy, "decision": decision}, {"metrics": {"accuracy": accuracy}})
    return f"accuracy {accuracy:.4f}, {limit:g} wanted: {decision}"


def export(task: ExecutorInput) -> str:
    """Copy the model into the pipeline's own storage, as TensorFlow Serving wants it: below a version number."""
    exported = task.output("exported")
    shutil.copytree(_place(task), exported.path / "1", dirs_exist_ok=True)
    task.write({}, {"exported": {"accuracy": task.parameters["accuracy"]}})
    return f"model exported to {exported.path}"


def _place(task: ExecutorInput) -> str:
    model = task.artifact("model")
    assert model, "`model` is not an optional input"
    return str(model.metadata["path"])  # the uri names a place in the pipeline's storage that training left empty


if __name__ == "__main__":
    step = {"prepare": prepare, "evaluate": evaluate, "export": export}[sys.argv[1]]
    print(step(ExecutorInput.from_arguments(sys.argv)))
