"""The job system: jobs of either API, each as its job file says."""

import functools
import pathlib

from tfsteps.platforms.tfjob_v1alpha1.options import TfJobOptions
from tfsteps.platforms.tfjob_v1alpha1.tfjob import KINDS
from tfsteps.runs.identity import Identity
from tfsteps.runs.location import Location
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import Options, Problem, TrainingJob, options_of
from tfsteps.systems.base import Handle, JobNote, OnEnd, Scope, clean_up_all
from tfsteps.systems.kubernetes.job_cluster import JobCluster
from tfsteps.systems.kubernetes.system import KubernetesSystem
from tfsteps.systems.pipeline import FindPipeline


class TfJobSystem:
    """Two systems of one kind of object each, of which a job chooses one by `systems.tfjob-v1alpha1.api`."""

    name = "tfjob-v1alpha1"
    location = Location.KUBERNETES
    outlives_launcher = True

    def __init__(self, context: str = "", namespace: str = "") -> None:
        """Keep how to reach the cluster: empty = the pod's own, else the kubeconfig's present one."""
        self._systems = {api: KubernetesSystem(kind) for api, kind in KINDS.items()}
        self.cluster = JobCluster(context, namespace)

    @property
    def cluster(self) -> JobCluster:
        """The cluster of the jobs of both APIs."""
        return next(iter(self._systems.values())).cluster

    @cluster.setter
    def cluster(self, cluster: JobCluster) -> None:
        for system in self._systems.values():
            system.cluster = cluster

    def join_pipeline(self, find: FindPipeline) -> None:
        """Give the jobs of both APIs to the pipeline of this process's pod."""
        for system in self._systems.values():
            system.join_pipeline(find)

    def _of(self, job: TrainingJob) -> KubernetesSystem:
        return self._systems[options_of(job, self.name, TfJobOptions).api]

    def with_settings(self, job: TrainingJob, options: Options) -> TrainingJob:
        return self._of(job).with_settings(job, options)

    def attempt(self, run: str, task: str) -> int:
        """Return which attempt to make, or to go on with; earlier ones may have been of the other API."""
        return max(system.attempt(run, task) for system in self._systems.values())

    def spec_problems(self, job: TrainingJob) -> list[Problem]:
        """Return what a TfJob cannot do."""
        return self._of(job).spec_problems(job)

    def warnings(self, job: TrainingJob) -> list[str]:
        """Return what is different in a TfJob, and whether the job's results would be lost with its pods."""
        return self._of(job).warnings(job)

    def output_paths(self, job: TrainingJob, identity: Identity, base_dir: pathlib.Path) -> OutputPaths:
        """Return the folders below `output_dir`, as the replicas see them."""
        return self._of(job).output_paths(job, identity, base_dir)

    def plan(self, job: TrainingJob, identity: Identity, paths: OutputPaths) -> list[dict[str, object]]:
        """Return the objects that `start` would create."""
        return self._of(job).plan(job, identity, paths)

    def start(self, job: TrainingJob, identity: Identity, paths: OutputPaths) -> Handle:
        """Create the job, or adopt it, as any on Kubernetes."""
        return self._of(job).start(job, identity, paths)

    def note(self, job: TrainingJob, name: str, uid: str, note: JobNote) -> None:
        """Annotate the job object."""
        self._of(job).note(job, name, uid, note)

    def attach(self, job: TrainingJob, name: str, uid: str, created: float) -> Handle:
        """Return the job of that name and uid."""
        return self._of(job).attach(job, name, uid, created)

    def clean_up(self, identity: Identity, scope: Scope, on_end: OnEnd | None) -> list[str]:
        """Remove what the jobs of a run left, of both APIs."""
        systems = self._systems.values()
        return clean_up_all(functools.partial(system.clean_up, identity, scope, on_end) for system in systems)

    def give_up(self) -> None:
        """Ask nothing again of a server that does not answer."""
        self.cluster.give_up()
