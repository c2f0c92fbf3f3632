"""Environment variables of a step that the replicas of its job get: the MLflow run, and the trace that it is part of.

Sources: Kubeflow Pipelines 2.17 sets those of MLflow in the pods of steps (`backend/src/v2/common/plugins/mlflow`);
OpenTelemetry's specification "Environment Variables as Context Propagation Carriers" names those of a trace.
"""

from collections.abc import Mapping

import msgspec

from tfsteps.spec.types import TrainingJob

STEP_VARIABLES = (
    "MLFLOW_RUN_ID",
    "MLFLOW_TRACKING_URI",
    "MLFLOW_EXPERIMENT_ID",
    "MLFLOW_WORKSPACE",
    "MLFLOW_TRACKING_AUTH",
    "TRACEPARENT",
    "TRACESTATE",
    "BAGGAGE",
)
"""Their names. Credentials are not among them: the job object would show them."""

_OF_ONE_RUN = ("MLFLOW_RUN_ID", "TRACEPARENT", "TRACESTATE", "BAGGAGE")


def with_step_variables(job: TrainingJob, environment: Mapping[str, str]) -> TrainingJob:
    """Return a job whose replicas get the variables of its step; those that the job sets stay as they are."""
    values = {name: environment[name] for name in STEP_VARIABLES if environment.get(name)}
    given = {name: value.replace("$", "$$") for name, value in values.items()}  # `env` would expand `$(NAME)`
    return msgspec.structs.replace(job, env={**given, **job.env}) if given else job


def without_step_variables(job: TrainingJob) -> TrainingJob:
    """Return the job by which a launcher recognizes its own: another try of the step may have other values."""
    env = {name: value for name, value in job.env.items() if name not in STEP_VARIABLES}
    return msgspec.structs.replace(job, env=env)


def without_run_variables(job: TrainingJob) -> TrainingJob:
    """Return the job without the variables that mean one run, such as its trace: for a record to run it again from."""
    env = {name: value for name, value in job.env.items() if name not in _OF_ONE_RUN}
    return msgspec.structs.replace(job, env=env)
