"""What a TfJob cannot do, and what is different in one. Pure."""

from collections.abc import Iterator

from tfsteps.spec import Problem, TrainingJob, is_uri
from tfsteps.systems.kubernetes.render.indexed_job import restart_problems
from tfsteps.systems.kubernetes.render.pod_template import image_problems, priority_problems
from tfsteps.systems.tfjob_v1alpha1.options import TfJobOptions

_PATH = ("systems", "tfjob-v1alpha1")
_JOB_LIMIT = 6  # restarts of one replica, the default of a Kubernetes Job, which the operator leaves as it is


def problems(job: TrainingJob, options: TfJobOptions) -> list[Problem]:
    """Return what a TfJob cannot do."""
    return [
        *(each for each in image_problems(job) if not (options.default_ps and each.path[1] == "ps")),
        *_commands(job, options),
        *restart_problems(job),
        *_restarts(job),
        *_unknown_words(job),
        *priority_problems(job, "tfjob-v1alpha1", options.priority_class),
        *_default_ps(job, options),
        *_tensorboard(job, options),
        *_scheduler(options),
    ]


def warnings(job: TrainingJob, options: TfJobOptions) -> list[str]:
    """Return what is different in a TfJob."""
    found = []
    if options.default_ps and job.volumes:
        found.append("`default_ps`: the operator's own program has none of the job's volumes, and saves nothing there.")
    if any(role.restart == "exit_code" and name != "evaluator" for name, role in job.resolved_roles().items()):
        found.append("`restart: exit_code`: only of the deciding replica are codes 1 to 127 final; others start again.")
    if job.effective_backoff_limit > _JOB_LIMIT:
        found.append(f"`backoff_limit`: a replica is started again {_JOB_LIMIT} times at the most.")
    if job.tensorboard and (job.tensorboard.keep_for or job.tensorboard.idle):
        found.append("`tensorboard.keep_for` and `idle` are not used: it is there for as long as the TfJob is.")
    return found


def _commands(job: TrainingJob, options: TfJobOptions) -> Iterator[Problem]:
    wrong = "is missing; the operator's TF_CONFIG has a `master`, which TensorFlow 2 refuses, and without a command it "
    for name, role in job.resolved_roles().items():
        own_program = name == "evaluator" or (name == "ps" and options.default_ps)
        if not (own_program or role.command):
            yield Problem(
                path=("roles", name, "command"),
                wrong=f"{wrong}cannot be corrected",
                fix="Add `command:` with what the image's entrypoint does",
            )


def _restarts(job: TrainingJob) -> Iterator[Problem]:
    name, _ = job.decisive_replica
    role = dict(job.roles.items())[name]
    if (role.restart or job.restart) == "on_failure":
        yield Problem(
            path=("roles", name, "restart") if role.restart else ("restart",),
            value="on_failure",
            wrong=f"is not possible for {name} 0: the operator takes its exit codes 1 to 127 for the end of the job",
            allowed="never, exit_code",
            fix=f"Write `exit_code`, for the job or for `roles.{name}.restart`",
        )
    for each, other in job.roles.items():
        if other.backoff_limit is not None:
            yield Problem(
                path=("roles", each, "backoff_limit"),
                value=str(other.backoff_limit),
                wrong="is not possible: a TfJob has no limits, and tfsteps counts the restarts of all replicas",
                fix="Set `backoff_limit` of the job",
            )


def _unknown_words(job: TrainingJob) -> Iterator[Problem]:
    """Yield what a TfJob has no word for, and nobody can do in its place."""
    elsewhere = "Leave it out, or use the job system `kubeflow`, `jobset` or `jobs`"
    if job.success == "all_workers":
        wrong = "is not possible: the MASTER alone decides, which is chief 0 or worker 0"
        yield Problem(path=("success",), value="all_workers", wrong=wrong, allowed="chief", fix=elsewhere)
    if job.queue:
        wrong = "is not possible: a TfJob starts at once"
        yield Problem(path=("queue",), value=job.queue, wrong=wrong, fix=elsewhere)
    if job.gang:
        wrong = "is not possible: a TfJob starts at once, before its PodGroup could be there"
        yield Problem(path=("gang",), wrong=wrong, fix=elsewhere)


def _default_ps(job: TrainingJob, options: TfJobOptions) -> Iterator[Problem]:
    path = (*_PATH, "default_ps")
    if options.default_ps and options.api == "kubeflow.org":
        fix = "Remove it, or write `api: tensorflow.org`"
        yield Problem(path=path, value="true", wrong="is not in tf-operator 0.1.0: PS needs a template", fix=fix)
    if options.default_ps and not job.roles.ps:
        yield Problem(path=path, value="true", wrong="has no role `ps` to run", fix="Add `ps: {}`, or remove it")


def _tensorboard(job: TrainingJob, options: TfJobOptions) -> Iterator[Problem]:
    if not job.tensorboard:
        return
    if options.api == "kubeflow.org":
        fix = "Remove it, or write `systems.tfjob-v1alpha1.api: tensorflow.org`"
        yield Problem(path=("tensorboard",), wrong="is not possible: tf-operator 0.1.0 has none", fix=fix)
    elif not (is_uri(job.output_dir or "") or any(not volume.empty_dir for volume in job.volumes)):
        wrong = "has nothing to read: the event files are gone with the replicas' pods"
        fix = "Mount a claim with `volumes: [{pvc: ..., mount: ...}]`, or let `output_dir` be a gs:// address"
        yield Problem(path=("tensorboard",), wrong=wrong, fix=fix)


def _scheduler(options: TfJobOptions) -> Iterator[Problem]:
    if options.scheduler_name and options.api == "tensorflow.org":
        fix = "Write `pod: {spec: {schedulerName: ...}}`, or `api: kubeflow.org`"
        path, wrong = (*_PATH, "scheduler_name"), "is a field of kubeflow.org alone"
        yield Problem(path=path, value=options.scheduler_name, wrong=wrong, fix=fix)
