"""A job system on Kubernetes: checks, creates or adopts the job object, and hands over to `job`."""

import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfsteps import systems
from tfsteps.cluster import access
from tfsteps.cluster.api import Api, ApiError, Stopped, Stopping
from tfsteps.identity import ATTEMPT, PREFIX, TASK, Identity, label_value, short_hash, spec_hash
from tfsteps.spec import Problem, TrainingJob
from tfsteps.systems.base import LaunchError, OnEnd, Places, Scope, State, StoppedError
from tfsteps.systems.capabilities import Level
from tfsteps.systems.kubernetes import preflight
from tfsteps.systems.kubernetes.finalizer import Finalizer
from tfsteps.systems.kubernetes.host import Host
from tfsteps.systems.kubernetes.job import KubernetesJob
from tfsteps.systems.kubernetes.kind import PARTS, Kind, bare
from tfsteps.systems.kubernetes.parts import UNFINISHED, complete
from tfsteps.systems.kubernetes.scope import SCOPE
from tfsteps.systems.kubernetes.upkeep import LAUNCHER, annotations

SPEC_HASH = f"{PREFIX}spec-hash"
_NOWHERE = "/tmp/tfsteps"  # noqa: S108  in the replicas' own file systems


class KubernetesSystem:
    """Any kind of job object, on the cluster that is configured."""

    outlives_launcher = True

    def __init__(self, kind: Kind, context: str = "", namespace: str = "", also: Sequence[Kind] = ()) -> None:
        """Keep how to reach the cluster: empty = the pod's own, else the kubeconfig's present one.

        Args:
            kind: Of its jobs.
            context: Of the kubeconfig.
            namespace: Empty = the cluster's own for us.
            also: Other kinds whose jobs are cleaned up, as far as we may.
        """
        self.name = kind.name
        self._kind = kind
        self._also = also
        self._context, self._namespace = context, namespace
        self._given_up = Stopping()

    def attempt(self, run: str, task: str) -> int:
        """Return which attempt to make, or to go on with.

        A job that has not ended is gone on with, and in an engine so is one that has succeeded: not the job was lost
        but the pod of its launcher, and Argo counts that as a try. Else it is what the engine says; outside of an
        engine the next one.
        """
        try:
            engine = self._host.attempt if self._host else None
            if engine == 0:
                return 0
            selector = ",".join(f"{key}={value}" for key, value in Identity(run=run, task=task).selector().items())
            found = self._api.list(self._kind.resource, self._where, labelSelector=selector)["items"]
        except ApiError as error:
            if error.status in (403, 404):  # no right, or no operator: `start` says all that is wrong
                return 0
            raise LaunchError(f"earlier attempts cannot be looked for: {error}", retryable=error.unavailable) from error
        jobs = {int(item["metadata"]["labels"][ATTEMPT]): item for item in found}
        return self._next(jobs, engine) if jobs else engine or 0

    def _next(self, jobs: Mapping[int, Mapping[str, Any]], engine: int | None) -> int:
        """Return the attempt that follows from the task's jobs, by attempt, and from what the engine says."""
        last = max(jobs)
        state = self._kind.verdict(jobs[last]).state
        if not (state.terminal or "deletionTimestamp" in jobs[last]["metadata"]):
            return last
        if engine is None:
            return last + 1
        return last if state is State.SUCCEEDED else engine

    def problems(self, job: TrainingJob) -> list[Problem]:
        """Return what the kind cannot express. The cluster itself is asked by `start`."""
        return self._kind.problems(job)

    def warnings(self, job: TrainingJob) -> list[str]:
        """Return what the kind does not use, and whether the job's results would be lost with its pods."""
        lost = "`output_dir` is not set, and no claim is mounted: what the replicas write is lost with their pods."
        return [
            *self._kind.warnings(job),
            *_no_board(job, self.name),
            *([] if job.output_dir or _lasting(job) else [lost]),
        ]

    def places(self, job: TrainingJob, identity: Identity, here: pathlib.Path) -> Places:
        """Return the folders below `output_dir`, as the replicas see them.

        Where it is not set they are on the first volume of the job that lasts; else they end with the pods. A task's
        folder is named as its label: a node of Argo's may be called `train(0:rate:0.1)` or `main[0].train`, and
        TensorFlow takes such brackets for patterns.
        """
        template = job.output_dir or f"{_lasting(job) or _NOWHERE}/{{run_id}}/{{task}}"
        folder = template.format(name=job.name, run_id=identity.run, task=label_value(identity.task))
        output = pathlib.PurePosixPath(folder)
        return Places(
            output=str(output), model=str(output / job.outputs.model), logs=str(output / job.outputs.logs), here=here
        )

    def plan(self, job: TrainingJob, identity: Identity, places: Places) -> list[dict[str, object]]:
        """Return the objects that `start` would create; in namespace `default` where no cluster is configured."""
        try:
            namespace = self._where
        except LaunchError:
            if self._context:  # that one was meant, and no other
                raise
            namespace = "default"
        wanted = self._rendered(job, identity, places, namespace)
        return [bare(wanted), *wanted.get(PARTS, ())]

    def start(self, job: TrainingJob, identity: Identity, places: Places) -> KubernetesJob:
        """Create the job object, or adopt the one that an earlier launcher of this attempt created.

        Raises:
            LaunchError: It cannot be created, can never run here, or another job has its name.
        """
        wanted = self._rendered(job, identity, places, self._where)
        try:
            if self._host and self._host.owner:
                wanted["metadata"]["ownerReferences"] = [self._host.owner]
                wanted["metadata"]["annotations"][LAUNCHER] = self._host.step
            wanted["metadata"]["labels"][SCOPE] = short_hash(self._scope(identity))
            item = self._existing(wanted) or self._create(wanted, job)
            if UNFINISHED in (item["metadata"].get("annotations") or {}):
                complete(self._api, self._kind.resource, item, wanted)
        except ApiError as error:
            raise LaunchError(
                f"the {self._kind.resource.kind} was not created: {error}", retryable=error.unavailable
            ) from error
        except Stopped:
            raise StoppedError(self._withdraw(wanted)) from None
        # not the client that a stop may have told to give up meanwhile: the job is there, and has to be seen to its end
        return KubernetesJob(self._api.again(), self._kind, item, job, self._host)

    def attach(self, job: TrainingJob, name: str, uid: str, created: float) -> KubernetesJob:
        """Return the job of that name and uid; nothing is asked of the cluster before its `events`."""
        item = {"metadata": {"name": name, "uid": uid, "namespace": self._where}}
        found = KubernetesJob(self._api.again(), self._kind, item, job, self._host)
        found.created = created
        return found

    def clean_up(self, identity: Identity, scope: Scope, on_end: OnEnd | None) -> list[str]:
        """Remove what the jobs of a run left in this namespace, as far as they have the labels of `scope`."""
        if scope == "run":
            return self._cleaned(identity.run, {}, on_end)
        if access.in_cluster() and self._host is None:
            needs = "which jobs are this step's siblings cannot be told, for it may not get its own pod"
            raise LaunchError(f"{needs}; grant that, or clean up with scope `run`", retryable=False)
        where = self._scope(identity)
        beside = self._cleaned(identity.run, {SCOPE: short_hash(where)}, on_end)
        if not where:
            return beside
        # the hook of a single step stands where that step's own steps would
        return beside + self._cleaned(identity.run, {TASK: label_value(where)}, on_end)

    def _cleaned(self, run: str, labels: Mapping[str, str], on_end: OnEnd | None) -> list[str]:
        """Clean up the jobs with these labels. Kinds that nobody named are passed over where we may not look."""
        removed = Finalizer(self._api, self._kind, self._where).clean_up(run, labels, on_end)
        for kind in self._also:
            try:
                removed += Finalizer(self._api, kind, self._where).clean_up(run, labels, on_end)
            except LaunchError as error:
                if error.retryable:
                    raise
        return removed

    def _scope(self, identity: Identity) -> str:
        """Return what a step has in common with its siblings: a node of its Workflow, else the folder of its task."""
        if self._host and self._host.scope is not None:
            return self._host.scope
        return str(pathlib.PurePath(identity.task).parent)

    def give_up(self) -> None:
        """Ask nothing again of a server that does not answer. Once there is a job, it is the one to be stopped."""
        self._given_up.set()

    def _withdraw(self, wanted: dict[str, Any]) -> str:
        """Delete the job object if it was created after all; return what is known of it."""
        meta, resource = wanted["metadata"], self._kind.resource
        urgent = Api(self._api.access, patience=0)
        try:
            found = urgent.get(resource, meta["namespace"], meta["name"])
            if found["metadata"].get("annotations", {}).get(SPEC_HASH) == meta["annotations"][SPEC_HASH]:
                urgent.delete(resource, meta["namespace"], meta["name"], found["metadata"]["uid"])
        except ApiError as error:
            if not error.missing:
                return f"Stopped; whether {resource.kind} {meta['name']} was created is not known: {error}"
        return "Stopped before the job was created."

    def _existing(self, wanted: dict[str, Any]) -> dict[str, Any] | None:
        """Return the job object that an earlier launcher of this attempt created; None = there is none."""
        resource, namespace, name = self._kind.resource, wanted["metadata"]["namespace"], wanted["metadata"]["name"]
        try:
            found = self._api.get(resource, namespace, name)
        except ApiError as error:
            if error.missing or error.status == 403:  # all that we may not do is said at once, by the preflight
                return None
            if error.status == 404:
                missing = f"the cluster has no {resource.kind} ({resource.api}): {self._kind.operator} is not installed"
                raise LaunchError(missing, retryable=False) from error
            raise
        theirs = found["metadata"].get("annotations", {}).get(SPEC_HASH)
        if theirs != wanted["metadata"]["annotations"][SPEC_HASH]:
            raise LaunchError(
                f"{resource.kind} {namespace}/{name} exists and was made from another job "
                f"({theirs or 'not by tfsteps'}); delete it, or use another run id",
                retryable=False,
            )
        return found

    def _create(self, wanted: dict[str, Any], job: TrainingJob) -> dict[str, Any]:
        """Create the object, unless it is certain that it cannot run. Another launcher may be faster: adopt its."""
        if findings := preflight.findings(self._api, self._kind, job, wanted):
            numbered = [f"({i}) {each}" if findings[1:] else each for i, each in enumerate(findings, 1)]
            raise LaunchError(f"nothing was created: {'; '.join(numbered)}", retryable=False)
        create = functools.partial(self._api.create, self._kind.resource, wanted["metadata"]["namespace"], bare(wanted))
        try:
            return create()
        except ApiError as error:
            if error.status != 409:
                raise
        return self._existing(wanted) or create()  # not there: a conflict over something else, such as a quota

    def _rendered(self, job: TrainingJob, identity: Identity, places: Places, namespace: str) -> dict[str, Any]:
        item = self._kind.render(job, identity, places, namespace)
        hash_of_it = spec_hash(msgspec.json.encode(item, order="deterministic"))
        unfinished = {UNFINISHED: "its parts"} if PARTS in item else {}
        item["metadata"]["annotations"] |= {SPEC_HASH: hash_of_it, **annotations(job), **unfinished}
        return item

    @functools.cached_property
    def _api(self) -> Api:
        try:
            api = Api(access.find(self._context))
        except access.AccessError as error:
            raise LaunchError(str(error), retryable=False) from error
        api.stopping = self._given_up
        return api

    @functools.cached_property
    def _host(self) -> Host | None:
        return Host.find(self._api) if access.in_cluster() else None

    @property
    def _where(self) -> str:
        return self._namespace or self._api.access.namespace


def _no_board(job: TrainingJob, system: str) -> list[str]:
    if job.tensorboard is None or systems.capabilities_of(system)["tensorboard"].level is not Level.UNUSED:
        return []
    return [
        "`tensorboard` is not used: none is started on a cluster. Start one over the event files, or run it locally."
    ]


def _lasting(job: TrainingJob) -> str:
    """Return a folder, with its braces doubled, on the first claim or NFS export that all replicas may write to."""
    writable = (volume.mount for volume in job.volumes if (volume.pvc or volume.nfs) and not volume.read_only)
    mount = next(writable, "").rstrip("/").replace("{", "{{").replace("}", "}}")
    return f"{mount}/tfsteps" if mount else ""
