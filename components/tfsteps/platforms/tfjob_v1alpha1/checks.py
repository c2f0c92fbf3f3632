"""Problems and warnings for jobs as TfJobs. Pure."""

from collections.abc import Iterator

from tfsteps.platforms.tfjob_v1alpha1 import layout
from tfsteps.platforms.tfjob_v1alpha1.options import TfJobOptions, keeps_operators_tf_config
from tfsteps.spec import Problem, TrainingJob, is_uri
from tfsteps.systems.kubernetes.render.command_wrapper import unexpanded

_PATH = ("systems", "tfjob-v1alpha1")
_JOB_LIMIT = 6  # restarts of one replica: the default of a Kubernetes Job, which the operator does not change


def spec_problems(job: TrainingJob, options: TfJobOptions) -> list[Problem]:
    """Return a problem for each value and combination that a TfJob cannot have."""
    shifted = {"TFSTEPS_INDEX"} if any(part.first for part in layout.parts(job, options.api)) else set()
    by_shell = unexpanded(job, shifted if keeps_operators_tf_config(job) else {"TF_CONFIG", "TFSTEPS_INDEX"})
    return [*_default_ps(job, options), *_tensorboard(job, options), *_scheduler(options), *by_shell]


def warnings(job: TrainingJob, options: TfJobOptions) -> list[str]:
    """Return a sentence for each field with another effect in a TfJob."""
    sentences = []
    if options.default_ps and job.volumes:
        sentences.append(
            "`default_ps`: the operator's own program has no access to the job's volumes and saves nothing there."
        )
    kept = keeps_operators_tf_config(job)
    if kept and options.tf_config is None:
        sentences.append(
            "TF_CONFIG is the operator's, with a `master`: TensorFlow 2 refuses it, and no role has a `command`."
        )
    if options.default_ps and not kept:
        sentences.append(
            "`default_ps`: the operator's servers call the chief `master`; a program of TensorFlow 1 needs "
            "`systems.tfjob-v1alpha1.tf_config: operator`."
        )
    bare = [
        part.role
        for part in layout.parts(job, options.api)
        if part.first and not job.resolved_roles()[part.role].command
    ]
    if kept and bare:
        sentences.append(f"TFSTEPS_INDEX is not set in {bare[0]} 1 and higher: that takes a `command`.")
    if job.resolved_roles()[job.decisive_replica[0]].restart == "on_failure":
        sentences.append(
            "`restart: on_failure`: exit codes 1 to 127 of the replica that decides end the job: the operator's choice."
        )
    if any(role.restart == "exit_code" and name != "evaluator" for name, role in job.resolved_roles().items()):
        sentences.append(
            "`restart: exit_code`: exit codes 1 to 127 are final only for the decisive replica; others restart."
        )
    if job.effective_backoff_limit > _JOB_LIMIT:
        sentences.append(f"`backoff_limit`: a replica is restarted at most {_JOB_LIMIT} times.")
    if job.tensorboard and job.tensorboard.life_time:
        sentences.append(f"{job.tensorboard.life_time} has no effect: TensorBoard exists as long as the TfJob.")
    return sentences


def _default_ps(job: TrainingJob, options: TfJobOptions) -> Iterator[Problem]:
    path = (*_PATH, "default_ps")
    if options.default_ps and options.api == "kubeflow.org":
        fix = "Remove it, or write `api: tensorflow.org`"
        wrong = "is not supported by tf-operator 0.1.0: PS requires a template"
        yield Problem(path=path, value="true", wrong=wrong, fix=fix)
    if options.default_ps and not job.roles.ps:
        yield Problem(path=path, value="true", wrong="requires the role `ps`", fix="Add `ps: {}`, or remove it")


def _tensorboard(job: TrainingJob, options: TfJobOptions) -> Iterator[Problem]:
    if not job.tensorboard:
        return
    if options.api == "kubeflow.org":
        fix = "Remove it, or write `systems.tfjob-v1alpha1.api: tensorflow.org`"
        yield Problem(path=("tensorboard",), wrong="is not supported by tf-operator 0.1.0", fix=fix)
    elif not (is_uri(job.output_dir or "") or any(not volume.empty_dir for volume in job.volumes) or _patched(job)):
        wrong = "has no event files to read: they are lost with the replicas' pods"
        fix = "Mount a claim with `volumes: [{pvc: ..., mount: ...}]`, or set `output_dir` to a gs:// address"
        yield Problem(path=("tensorboard",), wrong=wrong, fix=fix)


def _patched(job: TrainingJob) -> bool:
    """Tell whether a pod patch gives the decisive replica volumes, such as an `azureFile`."""
    patches = (job.pod, job.resolved_roles()[job.decisive_replica[0]].pod)
    return any((patch.get("spec") or {}).get("volumes") for patch in patches)


def _scheduler(options: TfJobOptions) -> Iterator[Problem]:
    if options.scheduler_name and options.api == "tensorflow.org":
        fix = "Write `pod: {spec: {schedulerName: ...}}`, or `api: kubeflow.org`"
        path, wrong = (*_PATH, "scheduler_name"), "is supported only with kubeflow.org"
        yield Problem(path=path, value=options.scheduler_name, wrong=wrong, fix=fix)
