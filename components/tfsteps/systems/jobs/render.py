"""Renders a job as Jobs, a headless Service and a PodGroup. Pure."""

import functools
from collections.abc import Iterator
from typing import Any

import msgspec

from tfsteps.kube.resource import Resource
from tfsteps.runs.identity import PREFIX, Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import ResolvedRole, RoleName, TrainingJob
from tfsteps.systems.jobs.options import JobsOptions
from tfsteps.systems.kubernetes.job_kind import RenderedJob
from tfsteps.systems.kubernetes.preflight.references import QUEUE_LABEL
from tfsteps.systems.kubernetes.render import gang
from tfsteps.systems.kubernetes.render.indexed_job import INDEX_ENV, indexed_job_spec
from tfsteps.systems.kubernetes.render.pod_template import (
    PORT,
    ROLE_LABEL,
    cluster_hosts,
    pod_template,
    tf_config,
)

JOBS = Resource("batch/v1", "jobs", "Job")
SERVICES = Resource("v1", "services", "Service")
JOB = f"{PREFIX}job"
"""Label of the Jobs and pods of one job: the name of its job object."""

DECIDES = f"{PREFIX}decides"
"""Annotation of another Job that must succeed for the job to succeed."""

PARTS = f"{PREFIX}parts"
"""Annotation of a job object: the roles that have a Job of their own beside it, separated by spaces."""

_HOST = 63  # the length limit of a host name


class Rendering(msgspec.Struct, frozen=True, dict=True):
    """The rendering of one job."""

    job: TrainingJob
    options: JobsOptions
    identity: Identity
    places: OutputPaths
    namespace: str

    def rendered(self) -> RenderedJob:
        """Return the job object with its dependents."""
        jobs = {name: self._job(name, role) for name, role in self.job.resolved_roles().items()}
        first = jobs.pop(self.job.decisive_replica[0])
        if jobs:
            first["metadata"]["annotations"][PARTS] = " ".join(jobs)
        dependents = [*self._service(), *self._pod_group(), *jobs.values()]
        if self.job.queue:
            first["metadata"]["labels"] |= {QUEUE_LABEL: self.job.queue}
        if self.job.keep_for is not None:
            first["spec"]["ttlSecondsAfterFinished"] = round(self.job.keep_for)
        if self.options.suspend or dependents:
            first["spec"]["suspend"] = True
        others_start_it = self.options.suspend or self.job.queue
        unsuspend = {"spec": {"suspend": False}} if dependents and not others_start_it else {}
        return RenderedJob(first, dependents, unsuspend)

    @functools.cached_property
    def _name(self) -> str:
        """The job object's name: `<name>-<role>-<index>` is a host name."""
        longest = max(len(f"-{name}-{role.replicas - 1}") for name, role in self.job.roles.items())
        return self.identity.job_name(self.job.name, _HOST - longest)

    def _name_of(self, role: RoleName) -> str:
        return self._name if role == self.job.decisive_replica[0] else f"{self._name}-{role}"

    @property
    def _labels(self) -> dict[str, str]:
        return {**self.job.labels, **self.identity.labels(), JOB: self._name}

    def _job(self, name: RoleName, role: ResolvedRole) -> dict[str, Any]:
        annotations = dict(self.job.annotations)
        if name == "worker" and name != self.job.decisive_replica[0] and self.job.success == "all_workers":
            annotations[DECIDES] = "true"
        metadata = {
            "name": self._name_of(name),
            "namespace": self.namespace,
            "labels": {**self._labels, ROLE_LABEL: name},
            "annotations": annotations,
        }
        alone = name == self.job.decisive_replica[0] and self.job.success == "chief"
        spec = indexed_job_spec(self.job, role, self._template(name, role), decides_alone=alone)
        return {"apiVersion": JOBS.api, "kind": JOBS.kind, "metadata": metadata, "spec": spec}

    def _template(self, name: RoleName, role: ResolvedRole) -> dict[str, Any]:
        env = [dict(INDEX_ENV), {"name": "TF_CONFIG", "value": tf_config(name, self._hosts)}]
        label = self.options.gpu_label
        template = pod_template(
            self.job, name, role, identity=self.identity, places=self.places, gpu_label=label, more_env=env
        )
        template["metadata"]["labels"][JOB] = self._name
        if self.job.replicas > 1:
            template["spec"]["subdomain"] = self._name
        if self.options.priority_class:
            template["spec"]["priorityClassName"] = self.options.priority_class
        return gang.gang_pod(template, self.job.gang, self._name) if self.job.gang else template

    @property
    def _hosts(self) -> dict[RoleName, list[str]]:
        """The address of each replica of the TensorFlow cluster."""
        domain = f"{self._name}.{self.namespace}.svc"
        return cluster_hosts(self.job, lambda role, index: f"{self._name_of(role)}-{index}.{domain}")

    # --- parts

    def _service(self) -> Iterator[dict[str, Any]]:
        """Yield the headless Service that gives the pods host names, before they are ready."""
        if self.job.replicas == 1:
            return
        metadata = {"name": self._name, "namespace": self.namespace, "labels": self._labels}
        spec = {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {JOB: self._name},
            "ports": [{"name": "tensorflow", "port": PORT}],
        }
        yield {"apiVersion": SERVICES.api, "kind": SERVICES.kind, "metadata": metadata, "spec": spec}

    def _pod_group(self) -> Iterator[dict[str, Any]]:
        if self.job.gang:
            yield gang.pod_group(self.job, self._name, self.namespace, self._labels)
