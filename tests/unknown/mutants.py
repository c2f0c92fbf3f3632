"""Launchers with a defect: what shows that the judge sees it. Each function puts one in, in the launcher's process."""

from tfsteps.answer import NO, YES
from tfsteps.kube import backoff
from tfsteps.kube.client import Api
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.steps import job_step
from tfsteps.systems.kubernetes.cleanup.keeper import JobOwner
from tfsteps.systems.kubernetes.follow.job import KubernetesJob
from tfsteps.systems.kubernetes.system import KubernetesSystem
from tfsteps.systems.launcher_pod import LauncherPod


def always_green():
    """The exit code is 0 whatever has happened."""
    job_step.exit_code = lambda _status: ExitCode.SUCCEEDED


def deletes():
    """A launcher deletes the job that it begins to follow."""
    events = KubernetesJob.events

    def deleting(self):
        self.send_stop(self._urgent)
        yield from events(self)

    KubernetesJob.events = deleting


def no_owner():
    """Jobs are created without their Workflow as owner, and do not get it later."""
    create = Api.create

    def orphan(self, resource, namespace, body, **options):
        body.get("metadata", {}).pop("ownerReferences", None)
        return create(self, resource, namespace, body, **options)

    Api.create, JobOwner.restore = orphan, lambda *_: ""


def never_pauses():
    """Nothing is waited for between two tries."""
    backoff.spread = lambda *_: 0.0


def keeps():
    """No deletion is sent, and all are taken for done."""
    Api.delete = lambda *_args, **_more: True


def all_siblings():
    """A finalizer takes all jobs of the run for those that it is to clean up."""
    KubernetesSystem._selects = lambda *_: YES


def folds():
    """A pod of which it is not known whether it is being evicted is taken for one that is not."""
    ask = LauncherPod.is_taken_away

    def folded(self, api, since):
        answer = ask(self, api, since)
        return NO if answer.unknown else answer

    LauncherPod.is_taken_away = folded


def breaks():
    """A defect raises an error that nobody expects."""
    job_step.launch_request = lambda _task: {}["job"]


MUTANTS = {
    item.__name__: item for item in (always_green, deletes, no_owner, never_pauses, keeps, all_siblings, folds, breaks)
}
