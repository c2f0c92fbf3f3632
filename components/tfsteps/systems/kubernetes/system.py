"""A job system on Kubernetes: checks, creates or adopts the job object; `follow.job` follows it."""

import datetime as dt
import functools
import pathlib
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tfsteps.answer import NO, YES, Answer, known
from tfsteps.kube import access
from tfsteps.kube.answers import MALFORMED
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.runs.events import State
from tfsteps.runs.identity import ATTEMPT, PREFIX, Identity, spec_hash
from tfsteps.runs.location import Location
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import Options, Problem, TrainingJob
from tfsteps.spec.step_inputs import without_step_variables
from tfsteps.systems.base import REPORT_SECONDS, JobNote, LaunchError, OnEnd, Scope, StoppedError, clean_up_all
from tfsteps.systems.capabilities import Level, held_at_start
from tfsteps.systems.kubernetes import code, code_claim
from tfsteps.systems.kubernetes.cleanup.retention import (
    DETACHED,
    HOME,
    LAUNCHER,
    REPORTED,
    Home,
    RetentionPolicy,
    annotations,
    recorded,
    retention_policy,
)
from tfsteps.systems.kubernetes.dependents import UNFINISHED, complete
from tfsteps.systems.kubernetes.job_cluster import JobCluster, kubectl_delete
from tfsteps.systems.kubernetes.job_kind import JobKind, RenderedJob, create
from tfsteps.systems.kubernetes.output_folders import lasting_folder, make_folders, output_paths
from tfsteps.systems.kubernetes.preflight import findings
from tfsteps.systems.kubernetes.tensorboard.request import SETTINGS, settings_of
from tfsteps.systems.launcher_pod import LauncherPod
from tfsteps.systems.pipeline import FindPipeline, PipelineContext, next_attempt

if TYPE_CHECKING:
    from tfsteps.kube.client import Api
    from tfsteps.systems.kubernetes.follow.job import KubernetesJob

SPEC_HASH = f"{PREFIX}spec-hash"
CREATOR = f"{PREFIX}creator"
"""Annotation of a job: a random text of the launcher that created it, by which it recognizes its own job."""

_DELETION_SECONDS = 300.0  # for the deletion of an earlier object of the job's name
_DELETION_PAUSE = 1.0
_LATE_SECONDS = 10.0  # in which a request to create the job may still take effect after a stop
_URGENT_SECONDS, _URGENT_PAUSE = 3.0, 1.0  # for an answer after a stop, and before the next request


class KubernetesSystem:
    """A kind of job object on a cluster.

    Attributes:
        cluster: Which one; systems that share it are on the same one.
    """

    location = Location.KUBERNETES
    outlives_launcher = True

    def __init__(self, kind: JobKind, context: str = "", namespace: str = "", also: Sequence[JobKind] = ()) -> None:
        """Keep the cluster and the kinds.

        Args:
            kind: The kind of its jobs.
            context: As `JobCluster` takes it.
            namespace: Empty = the default namespace of the cluster's configuration.
            also: Other kinds whose jobs are cleaned up, if that is permitted.
        """
        self.name = kind.name
        self.cluster = JobCluster(context, namespace)
        self._kind = kind
        self._also = also
        self._unlisted = ""  # why earlier attempts could not be looked for
        self._creator = uuid.uuid4().hex
        self._create_sent = False
        self._absent = False  # the API server has answered that there is no such job, and no create was sent after that
        self._find_pipeline: FindPipeline | None = None

    def join_pipeline(self, find: FindPipeline) -> None:
        """Make the pipeline that `find` returns for this process's pod, if any, the owner of the jobs."""
        self._find_pipeline = find

    def attempt(self, run: str, task: str) -> int:
        """Return the number of the attempt to start or continue, by the task's existing jobs."""
        try:
            selector = ",".join(f"{key}={value}" for key, value in Identity(run=run, task=task).selector().items())
            list_jobs = functools.partial(self._api.list, self._kind.resource, self._where, labelSelector=selector)
            items = self._api.settled(list_jobs)["items"] or []
        except ApiError as error:
            if error.status in (403, 404):  # no permission, or no operator: `start` reports all problems
                self._unlisted = str(error)
                return 0
            raise LaunchError(f"earlier attempts cannot be looked for: {error}", retryable=error.unavailable) from error
        jobs_of_task = self._kind.group_objects(items)  # other objects of the kind may be parts of a job
        labelled = [((item["metadata"].get("labels") or {}).get(ATTEMPT, ""), item) for item in jobs_of_task]
        jobs = {int(text): item for text, item in labelled if text.isascii() and text.isdigit()}
        return self._next(jobs) if jobs else 0

    def _next(self, jobs: Mapping[int, Mapping[str, Any]]) -> int:
        """Return the attempt that follows from the task's jobs; `jobs` is by attempt."""
        last = max(jobs)
        deleting = "deletionTimestamp" in jobs[last]["metadata"]
        state, reported = self._kind.verdict(jobs[last]).state, retention_policy(jobs[last]).reported
        unread = self._host.unread if self._host and self._find_pipeline else ""
        if unread and (deleting or (state is State.SUCCEEDED and reported)):
            name = jobs[last]["metadata"]["name"]
            message = (
                f"whether this is a retry of the step of {name} is not known: the launcher's own pod cannot be read"
            )
            raise LaunchError(f"{message} ({unread})", retryable=True)
        if deleting:
            return last if self._pipeline else last + 1
        return next_attempt(last, state, self._pipeline, reported=reported)

    def spec_problems(self, job: TrainingJob) -> list[Problem]:
        """Return what the kind does not support. `start` checks the cluster itself."""
        return [*self._kind.spec_problems(job), *(code.spec_problems(job) if job.code else [])]

    def with_settings(self, job: TrainingJob, options: Options) -> TrainingJob:
        """Return the job with the platform's settings; an earlier launcher's job is recognized by `job`, without them.

        Errors as `JobCluster.with_settings`.
        """
        return self.cluster.with_settings(job, options)

    def warnings(self, job: TrainingJob) -> list[str]:
        """Return which fields the kind does not use, and whether the job would not start, or its results be lost."""
        lost = (
            "`output_dir` is not set, and no claim is mounted: what the replicas write is lost with their pods, and "
            "the outputs `model` and `logs` stay empty."
        )
        return [
            *self._kind.warnings(job),
            *held_at_start(job, self.name),
            *([self.cluster.warning] if self.cluster.warning else []),
            *([] if job.output_dir or lasting_folder(job) else [lost]),
        ]

    def output_paths(self, job: TrainingJob, identity: Identity, base_dir: pathlib.Path) -> OutputPaths:
        """Return the folders below `output_dir`, as the replicas see them.

        Without `output_dir` they are on the job's first persistent volume, else in the pods, and lost with them.
        """
        return output_paths(job, identity, base_dir)

    def plan(self, job: TrainingJob, identity: Identity, paths: OutputPaths) -> list[dict[str, object]]:
        """Return the objects that `start` would create; in namespace `default` if no cluster is configured."""
        rendered = self._rendered(job, identity, paths, self.cluster.planned_namespace)
        return [rendered.manifest, *map(dict, rendered.dependents)]

    def start(self, job: TrainingJob, identity: Identity, paths: OutputPaths) -> "KubernetesJob":
        """Create the job object, or adopt the one that an earlier launcher of this attempt created.

        Raises:
            LaunchError: It cannot be created, can never run on this cluster, or another job has its name.
        """
        from tfsteps.systems.kubernetes.follow.job import KubernetesJob  # noqa: PLC0415  checks of a job need it not

        rendered = self._rendered(job, identity, paths, self._where)
        try:
            rendered.annotations.update({LAUNCHER: identity.task, CREATOR: self._creator, **recorded(job)})
            if self._host:
                rendered.manifest["metadata"] = self._host.passed_on(rendered.manifest["metadata"])
            if self._pipeline:
                rendered.annotations[LAUNCHER] = self._pipeline.step
            if self.cluster.name:
                namespace = self.cluster.home_namespace
                uid = self.cluster.home.namespace_uid(namespace) if self._pipeline else ""
                owner = self._pipeline.owner if self._pipeline else {}
                rendered.annotations[HOME] = Home(namespace, uid, owner).text
            make_folders(job, paths)
            item = self._existing(rendered)
            if item is None or self._unlisted:
                item = self._create(rendered, job)
            if UNFINISHED in (item["metadata"].get("annotations") or {}):
                complete(self._api, self._kind.resource, item, rendered)
        except ApiError as error:
            lost = error.missing and error.about == rendered.name  # it was created, and somebody deleted it
            raise LaunchError(f"{self._outcome}: {error}", retryable=error.unavailable or lost) from error
        except MALFORMED as error:
            raise LaunchError(f"{self._outcome}: an answer is not understood: {error!r}", retryable=True) from error
        except Stopped:
            item = self._left_by_stop(rendered)
        # a copy of the client: a stop may have set `stopping` on the original, but the job must be followed to its end
        started = KubernetesJob(self._api.copy(), self._kind, item, job, self._host)
        started.is_new = (item["metadata"].get("annotations") or {}).get(CREATOR) == self._creator
        started.owner.needed = True
        started.owner.restore(self._api.copy(REPORT_SECONDS), item)  # a launch step does not follow it
        if self._host:
            self._host.label(self.cluster.home, identity, cluster=self.cluster.name)
        return started

    def attach(self, job: TrainingJob, name: str, uid: str, created: float) -> "KubernetesJob":
        """Return the job of that name and uid; no request is sent before its `events`."""
        from tfsteps.systems.kubernetes.follow.job import KubernetesJob  # noqa: PLC0415

        item = {"metadata": {"name": name, "uid": uid, "namespace": self._where}}
        handle = KubernetesJob(self._api.copy(), self._kind, item, job, self._host)
        handle.created = created
        return handle

    def note(self, job: TrainingJob, name: str, uid: str, note: JobNote) -> None:  # noqa: ARG002
        """Annotate the job object, if it still exists."""
        noted = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        annotations: dict[str, str | None] = {DETACHED: noted} if note is JobNote.DETACHED else {REPORTED: noted}
        if note is JobNote.FOLLOWED:
            annotations = {DETACHED: None, **({LAUNCHER: self._pipeline.step} if self._pipeline else {})}
        patch = {"metadata": {"uid": uid, "annotations": annotations}}
        try:
            patience = REPORT_SECONDS if note is JobNote.REPORTED else None
            self._api.copy(patience).patch(self._kind.resource, self._where, name, patch)
        except ApiError as error:
            if error.status not in (404, 409):  # it is gone or was replaced
                what = f"{self._kind.resource.kind} {self._where}/{name}"
                raise LaunchError(f"{what} could not be annotated as {note}: {error}", retryable=True) from error

    def clean_up(self, identity: Identity, scope: Scope, on_end: OnEnd | None) -> list[str]:
        """Clean up the jobs of a run in this namespace that are in `scope`."""
        from tfsteps.systems.kubernetes.cleanup.finalizer import Finalizer  # noqa: PLC0415

        if scope == "siblings" and self._host and self._host.unread:
            needs = f"sibling jobs cannot be determined: the launcher's own pod cannot be read ({self._host.unread})"
            raise LaunchError(f"{needs}; grant `get pods`, or clean up with scope `run`", retryable=False)
        selects = functools.partial(self._selects, identity, scope)
        kinds = (self._kind, *self._also)
        finalizers = [Finalizer(self._api, kind, self._where, optional=kind is not self._kind) for kind in kinds]
        return clean_up_all(
            functools.partial(finalizer.clean_up, identity.run, selects, on_end) for finalizer in finalizers
        )

    def _selects(self, identity: Identity, scope: Scope, job: RetentionPolicy) -> Answer:
        """Return whether a finalizer cleans up a job: of a step of its pipeline, else of a task in the same folder.

        A job that is kept for a retry of the run is skipped, unless the run is being stopped.
        """
        kept_for_run = job.kept_until is not None and not job.kept_for_try
        if kept_for_run and self._host and not (self._pipeline and self._pipeline.ends().yes):
            return NO
        if scope == "run":
            return YES
        if self._pipeline:
            return self._pipeline.cleans_up_after(job.launcher, detached=job.detached)
        return known(pathlib.PurePath(job.launcher).parent == pathlib.PurePath(identity.task).parent)

    def give_up(self) -> None:
        """Stop retrying requests. Once a job exists, stop the job instead."""
        self.cluster.give_up()

    def _left_by_stop(self, rendered: RenderedJob) -> dict[str, Any]:
        """Return the job object that exists although the start was stopped; it is stopped, or left, as any other.

        Raises:
            StoppedError: There is none.
            LaunchError: That is not known.
        """
        resource, namespace, name = self._kind.resource, rendered.namespace, rendered.name
        urgent, what = self._api.without_retries(_URGENT_SECONDS), f"{resource.kind} {name}"
        end = time.monotonic() + (self._host.grace_seconds if self._host else _LATE_SECONDS)
        absences = 0
        while True:
            try:
                item = urgent.get(resource, namespace, name, once=True)
                if (item["metadata"].get("annotations") or {}).get(SPEC_HASH) == rendered.annotations[SPEC_HASH]:
                    return item
                raise StoppedError("Stopped before the job was created.")
            except (ApiError, *MALFORMED) as error:
                absent = isinstance(error, ApiError) and error.missing
                absences = absences + 1 if absent else 0
                if absences > 1 and not self._create_sent:
                    raise StoppedError("Stopped before the job was created.") from error
                why = "the last request to create it had no answer" if absent else str(error)
            if self.cluster.repeated or time.monotonic() >= end:
                rest = kubectl_delete(self._api.access, resource, namespace, name)
                message = f"Stopped; whether {what} was created is not known ({why}); if it is there: {rest}"
                raise LaunchError(message, retryable=True)
            time.sleep(_URGENT_PAUSE)

    def _existing(self, rendered: RenderedJob, *, allowed: bool = False) -> dict[str, Any] | None:
        """Return the job object that an earlier launcher of this attempt created; None = there is none.

        If it is being deleted, wait for the deletion: its pods go with it, and its name cannot be used before. A 403
        counts as None unless the request was `allowed` before: the preflight reports all missing permissions.
        """
        resource, namespace, name = self._kind.resource, rendered.namespace, rendered.name
        item = self._get_job(namespace, name, allowed=allowed)
        give_up = time.monotonic() + _DELETION_SECONDS
        while item and "deletionTimestamp" in item["metadata"]:
            if time.monotonic() > give_up:
                raise LaunchError(_undeleted(f"{resource.kind} {namespace}/{name}", item["metadata"]), retryable=True)
            if self._api.stopping.wait(_DELETION_PAUSE):
                raise Stopped
            item = self._get_job(namespace, name, allowed=True)
        if item is None:
            return None
        theirs = (item["metadata"].get("annotations") or {}).get(SPEC_HASH)
        if theirs != rendered.annotations[SPEC_HASH]:
            raise LaunchError(
                f"{resource.kind} {namespace}/{name} exists and was made from another job "
                f"({theirs or 'not by tfsteps'}); delete it, or use another run id",
                retryable=False,
            )
        return item

    def _get_job(self, namespace: str, name: str, *, allowed: bool) -> dict[str, Any] | None:
        """Return the job object of that name; None = there is none."""
        resource, self._absent = self._kind.resource, False
        try:
            return self._api.get(resource, namespace, name, allowed=allowed)
        except ApiError as error:
            self._absent = error.missing
            if error.missing or (error.status == 403 and not allowed):
                return None
            if error.status == 404:
                missing = f"the cluster has no {resource.kind} ({resource.api}): {self._kind.operator} is not installed"
                raise LaunchError(missing, retryable=False) from error
            raise

    def _create(self, rendered: RenderedJob, job: TrainingJob) -> dict[str, Any]:
        """Create the object, unless it certainly cannot run. If another launcher was faster, adopt its object.

        So is one that an earlier try of the request created without an answer: a quota may refuse the next try for it.
        """
        if problems := findings.findings(self._api, self._kind, job, rendered):
            numbered = [f"({i}) {problem}" if problems[1:] else problem for i, problem in enumerate(problems, 1)]
            raise LaunchError(f"nothing was created: {'; '.join(numbered)}", retryable=False)
        if self._unlisted:
            message = f"nothing was created: earlier attempts of the task could not be looked for ({self._unlisted})"
            raise LaunchError(message, retryable=True)
        if (source := job.code_source) and source.claim:
            code_claim.store(self._api, self._kind, job, source, rendered)
        if self.cluster.stopping.is_set():
            raise Stopped
        try:
            return self._send(rendered, job)
        except ApiError as error:
            if error.unavailable:
                raise
            if (existing := self._existing(rendered, allowed=True)) is not None:
                return existing
            if error.status != 409:  # else a conflict over something else, such as a quota
                raise
        return self._send(rendered, job)

    def _send(self, rendered: RenderedJob, job: TrainingJob) -> dict[str, Any]:
        self._create_sent, self._absent = True, False
        return create(self._api, self._kind, job, rendered)

    @property
    def _outcome(self) -> str:
        kind = self._kind.resource.kind
        return f"the {kind} was not created" if self._absent else f"whether the {kind} exists is not known"

    def _rendered(self, job: TrainingJob, identity: Identity, paths: OutputPaths, namespace: str) -> RenderedJob:
        unset = without_step_variables(self.cluster.unset or job)
        # settings come before the code is packed
        started, recognized = job, msgspec.structs.replace(unset, code=job.code)
        config_maps: list[dict[str, Any]] = []
        if source := job.code_source:
            started, recognized = (code.with_code(one, source, identity) for one in (started, recognized))
            config_maps = code.config_maps(job, source, identity, namespace)
        rendered = self._kind.render(started, identity, paths, namespace)
        same = rendered if recognized == started else self._kind.render(recognized, identity, paths, namespace)
        content: Mapping[str, Any] = same.manifest  # jobs with equal content create the same objects
        if same.dependents:
            content = {**same.observed(), "unsuspend": same.unsuspend_patch}
        dependents = [*rendered.dependents, *config_maps]  # the hash has their name
        rendered = msgspec.structs.replace(rendered, dependents=dependents)
        unfinished = {UNFINISHED: "its dependents"} if rendered.dependents else {}
        rendered.annotations.update({SPEC_HASH: spec_hash(content), **annotations(job), **unfinished})
        if job.tensorboard and self._kind.capabilities["tensorboard"].level is Level.DONE:
            settings = settings_of(job, identity, paths)
            rendered.annotations[SETTINGS] = msgspec.json.encode(settings).decode()
        return rendered

    @property
    def _api(self) -> "Api":
        return self.cluster.api

    @functools.cached_property
    def _host(self) -> LauncherPod | None:
        if not access.in_cluster():
            return None
        try:
            host = LauncherPod.find(self.cluster.home, self._find_pipeline)
        except ApiError as error:
            raise LaunchError(f"the launcher's own pod cannot be read: {error}", retryable=True) from error
        if self.cluster.name:
            host.launch_elsewhere()
        return host

    @property
    def _pipeline(self) -> PipelineContext | None:
        """The pipeline of this process's pod; None = no pipeline."""
        return self._host.pipeline if self._host else None

    @property
    def _where(self) -> str:
        return self.cluster.namespace


def _undeleted(what: str, meta: Mapping[str, Any]) -> str:
    """Return why a job cannot be created: the deletion of the object with its name does not finish."""
    finalizers = ", ".join(meta.get("finalizers") or [])
    held = f"its finalizers hold it ({finalizers}): look at the controllers that set them" if finalizers else ""
    state = f"{what} is being deleted since {meta['deletionTimestamp']} and is still there after"
    return f"{state} {_DELETION_SECONDS:.0f} s; {held or 'look at its deletion'}, or use another run id"
