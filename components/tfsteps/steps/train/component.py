"""The interface of the `train` component; the program is `launcher`."""

# kfp reads this signature: the function does not use its parameters, and kfp does not support `X | None`.
# ruff: noqa: ARG001, D417, PLR0917, UP045
# mypy: disable-error-code="valid-type, type-arg"

from typing import Optional

from kfp import dsl

from tfsteps.engines.kfp.component import container_spec, launcher_component


@launcher_component
def train(
    job: dsl.OutputPath(dict),
    tensorboard_url: dsl.OutputPath(str),
    failure: dsl.OutputPath(str),
    fault: dsl.OutputPath(str),
    model: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
    logs: dsl.Output[dsl.Artifact],
    report: dsl.Output[dsl.HTML],
    tensorboard_link: dsl.Output[dsl.Markdown],
    spec: Optional[dict] = None,
    name: str = "",
    image: str = "",
    command: Optional[list] = None,
    args: Optional[list] = None,
    code: str = "",
    env: Optional[dict] = None,
    chief: Optional[int] = None,
    workers: Optional[int] = None,
    ps: Optional[int] = None,
    evaluator: Optional[int] = None,
    cpu: str = "",
    memory: str = "",
    gpu: Optional[int] = None,
    restart: str = "",
    backoff_limit: Optional[int] = None,
    deadlines: Optional[dict] = None,
    metric_tags: Optional[dict] = None,
    cluster: str = "",
    data: str = "",
    system: str = "auto",
    run_id: str = "",
    task_config: dsl.TaskConfig = None,
) -> dsl.ContainerSpec:
    """Run one distributed TensorFlow job and wait for its end. The step succeeds exactly when the job does.

    Each input except the last four sets a field of the job, and overrides `spec`. An input that is left out or empty
    changes nothing.

    Args:
        spec: A whole job, with the fields of a job file. Empty = the other inputs describe the job.
        name: Stem of the job's name: 1 to 63 lower-case letters, digits and '-'.
        image: Container image of every role; local runs do not use it.
        command: Program and its first arguments. Empty = the image's entrypoint; local runs require a command.
        args: Further arguments. An empty list removes those of `spec`.
        code: Folder with the files of the program, such as `.`: packed when the pipeline is compiled, at most 48 KiB
            compressed, and unpacked in each replica, which starts there. The image then needs no program. A mapping of
            `folder` and `bucket` takes more: it is uploaded when the pipeline is compiled.
        env: Environment variables, added to those of `spec`.
        chief: Number of chiefs: 0 or 1. 0 removes the chief of `spec`.
        workers: Number of workers. 0 removes those of `spec`.
        ps: Number of parameter servers. 0 removes those of `spec`.
        evaluator: Number of evaluators: 0 or 1. 0 removes the evaluator of `spec`.
        cpu: Cores of each replica, such as 2 or 500m.
        memory: Memory of each replica, such as 4Gi.
        gpu: Whole GPUs of each replica.
        restart: When a replica is restarted: never, on_failure, always or exit_code.
        backoff_limit: Restarts of the whole job before it counts as failed.
        deadlines: Limits of queue, pending, running, no_progress and total: seconds, or text such as 30m.
        metric_tags: Name of each metric and the tag of its scalar in the event files, such as {"loss": "train/loss"}.
        cluster: The cluster that the job runs on, as the platform settings name it. Empty = as `spec` and the settings
            say, otherwise that of the step.
        data: Path or URI of the data, as the replicas see it. They get it in the environment variable TFSTEPS_DATA.
        system: The job system. auto = in a pod the system that the cluster serves, else local.
        run_id: Groups the jobs of a run. A pipeline sets it; empty = taken from the output path.
        task_config: Do not set. Kubeflow Pipelines fills it with the task's resources, node selector, tolerations,
            affinity, env and volumes, which the replicas get.

    Returns:
        job: name, uid, system, namespace, state, started and ended (ISO 8601), the folders output, model and logs, the
            metrics, metric_notes (why a metric is not set, or what is not known of its value), and the usage: mean and
            peak of CPU and memory of each role.
        tensorboard_url: Address of the TensorBoard; empty = none is running.
        failure: Why the job failed, in one sentence; empty = it did not fail.
        fault: platform = the same job may succeed next time; user = something must be changed first; empty = it did not
            fail.
        model: The model. metadata["path"] is its path as the replicas see it.
        metrics: The metrics that the job names and its event files contain, and `<metric>_note` in the metadata: why a
            metric is not set, or what is not known of its value.
        logs: Every line of every replica, with timestamps. metadata["path"] is the folder of the event files.
        report: The run report, a single HTML file.
        tensorboard_link: A page with the address of the TensorBoard as a link.
    """
    return container_spec("tfsteps.steps.train.launcher")
