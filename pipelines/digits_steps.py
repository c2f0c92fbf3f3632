"""The steps around training: `python digits_steps.py STEP ...`, on either engine."""

import json
import os
import pathlib
import shutil

import digits
from step_program import main, shared, step

from tfsteps.engines.base import StepTask

EXPORT, REJECT = "export", "reject"
"""What `evaluate` decides."""


@step("file")
def prepare(task: StepTask, examples: int, seed: int) -> str:
    """Draw a data set: `examples` digits to train with, and a fifth as many to test with."""
    data, test = task.output("data"), max(examples // 5, 100)
    file = shared(f"tfsteps/{task.identity().run}/digits.npz", data)
    digits.save(file, train=examples, test=test, seed=seed)
    task.write({"file": str(file)}, {"data": {"path": str(file), "train": examples, "test": test}})
    return f"{examples + test} digits drawn, {file.stat().st_size / 1e6:.1f} MB"


@step("counts")
def check(task: StepTask, file: str, least: int) -> str:
    """Look at the data before anybody trains with them; fail where they are not as they must be."""
    images, labels = digits.load(file, "train")
    counts = {str(digit): int((labels == digit).sum()) for digit in range(digits.CLASSES)}
    wrong = [f"there are {len(images)} digits, not {least} or more"] if len(images) < least else []
    wrong += [f"there is no {digit}" for digit, count in counts.items() if not count]
    if wrong:
        raise SystemExit(f"{file} is not fit to train with: {'; '.join(wrong)}")
    task.write({"counts": counts}, {})
    return f"{len(images)} digits, {min(counts.values())} or more of each"


@step("accuracy_seen", "decision", "metrics")
def evaluate(task: StepTask, file: str, accuracy: float, model: str = "") -> str:
    """Score the model on digits that it has not seen, and decide whether it is exported."""
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="2", TF_ENABLE_ONEDNN_OPTS="0")
    import tensorflow as tf  # noqa: PLC0415  the other steps need not wait for it

    images, labels = digits.load(file, "test")
    logits = tf.saved_model.load(_place(task, model))(tf.constant(images)).numpy()
    seen = float((logits.argmax(1) == labels).mean())
    decision = EXPORT if seen >= accuracy else REJECT
    task.write({"accuracy_seen": seen, "decision": decision}, {"metrics": {"accuracy": seen}})
    return f"accuracy {seen:.4f}, {accuracy:g} wanted: {decision}"


@step()
def export(task: StepTask, accuracy: float, model: str = "") -> str:
    """Copy the model where the pipeline keeps models, as TensorFlow Serving wants it: below a version number."""
    exported = task.output("exported")  # under Argo there are no artifacts
    target = exported.path if exported else shared(f"exported/{task.identity().run}", None)
    shutil.copytree(_place(task, model), target / "1", dirs_exist_ok=True)
    task.write({}, {"exported": {"accuracy": accuracy}})
    return f"model exported to {target}"


@step("job", "settings", "model")
def best(task: StepTask, jobs: list, metric: str) -> str:
    """Choose among the outputs `job` of several trainings the one with the highest `metric`."""
    jobs = [json.loads(item) if isinstance(item, str) else item for item in jobs]  # Argo collects texts
    job = max(jobs, key=lambda job: job["metrics"][metric])
    settings = json.loads(pathlib.Path(job["output"], "settings.json").read_text("utf-8"))
    task.write({"job": job, "settings": settings}, {"model": {"path": job["model"]}})
    return f"the best of {len(jobs)}: {job['name']}, {metric} {job['metrics'][metric]:.4f}, {settings}"


@step("winner")
def compare(task: StepTask, first: dict, second: dict, metric: str) -> str:
    """Say which of two trainings has the higher `metric`; fail if they shared anything."""
    if both := {first[name] for name in ("name", "uid", "output")} & {
        second[name] for name in ("name", "uid", "output")
    }:
        raise SystemExit(f"the trainings touched each other: both have {', '.join(both)}")
    winner = max(first, second, key=lambda job: job["metrics"][metric])
    task.write({"winner": winner["name"]}, {})
    return f"{winner['name']} wins with {metric} {winner['metrics'][metric]:.4f}"


@step("folder")
def promote(task: StepTask, job: dict) -> str:
    """Put the job's model where a TensorFlow Serving looks for its newest version."""
    promoted, version = task.output("promoted"), str(int(job["created"]))  # the same if this step is tried again
    target = shared("serving/digits", promoted) / version
    new = target.with_name(f"new-{version}")
    if not target.exists():
        shutil.copytree(job["model"], new, dirs_exist_ok=True)
        new.rename(target)  # as a whole: a server may be looking
    task.write({"folder": str(target)}, {"promoted": {"path": str(target)}})
    return f"model promoted to {target}"


def _place(task: StepTask, model: str) -> str:
    """Return the model's folder: Argo hands it over; Kubeflow's artifact says it, and its uri names an empty place."""
    artifact = task.artifact("model")
    return str(artifact.metadata["path"]) if artifact else model


if __name__ == "__main__":
    main()
