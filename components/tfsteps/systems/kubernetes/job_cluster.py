"""The cluster of a job, and that of the process that launches it: the same one, unless the job names another.

The step stays on its own cluster: its pod, its run, its settings, its records. Everything that belongs to the job is on
the job's cluster. Another cluster is one that the platform settings define by a kubeconfig in a Secret. The Secret is
read through the API, not mounted: compiled pipelines then need not know which cluster the settings will name.
"""

import base64
import binascii
import contextlib
import functools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from tfsteps.kube import access
from tfsteps.kube.backoff import StopFlag
from tfsteps.kube.credentials import AccessError, NoContextError
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Resource
from tfsteps.runs.identity import CLUSTER, RUN_ID, label_value
from tfsteps.runs.location import HomeCluster
from tfsteps.settings import find
from tfsteps.spec import Options, Problem, SpecError, TrainingJob
from tfsteps.spec.problems import shown
from tfsteps.spec.types import OWN_CLUSTER
from tfsteps.systems.base import LaunchError
from tfsteps.systems.features import FEATURES

if TYPE_CHECKING:
    from tfsteps.kube.client import Api
    from tfsteps.kube.credentials import Access
    from tfsteps.settings.types import Cluster

_SECRETS = Resource("v1", "secrets", "Secret")


class JobCluster:
    """Which cluster a job is on. Nothing is asked before it is needed.

    Attributes:
        stopping: Once set, no request of `api` and `home` is retried.
        repeated: Whether `give_up` was called again.
        unset: The job without the platform's settings, which may change; None = none were asked for.
        warning: Why it is not known whether there are settings; empty = it is known.
    """

    def __init__(
        self,
        context: str = "",
        namespace: str = "",
        patience: float | None = None,
        home: "Api | None" = None,
        launched_from: HomeCluster | None = None,
    ) -> None:
        """Keep how to reach the cluster.

        Args:
            context: A context of the kubeconfigs; if they have none of that name, a cluster of the platform settings.
                Empty = the pod's cluster, else the kubeconfig's current context.
            namespace: Of the jobs, and of the settings; empty = the default one.
            patience: Seconds that a request is retried; None = as long as `Api` does.
            home: The cluster of this process; None = as `context` says.
            launched_from: Of a job whose record has `context` as the cluster that the job or the settings name: where
                it is defined. None = the context is the user's.
        """
        if home is not None:
            self.__dict__["home"] = home
        self.stopping = StopFlag()
        self.repeated = False
        self.unset: TrainingJob | None = None
        self.warning = ""
        self._context, self._namespace, self._patience = context, namespace, patience
        self._launched_from = launched_from
        self._chosen = ""  # by a job; empty = where `context` leads
        self._settings: find.Found | None = None

    def give_up(self) -> None:
        """Stop retrying requests. Safe in a signal handler; called once, however many systems share the cluster."""
        self.repeated = self.stopping.is_set()
        self.stopping.set()

    @functools.cached_property
    def home(self) -> "Api":
        """The cluster of this process: that of its pod, else that of the kubeconfig. LaunchError as `api`."""
        with _as_launch_error("the cluster"):
            recorded = self._launched_from.context if self._launched_from else ""
            return self._client(access.find(recorded if self._of_settings else self._context))

    @functools.cached_property
    def api(self) -> "Api":
        """The job's cluster.

        Raises:
            LaunchError: There is none, or its configuration cannot be used or read; the message says what to do.
        """
        with _as_launch_error(f"cluster {self.name}"):
            return self._client(self._access(self.name)) if self.name else self.home

    @property
    def name(self) -> str:
        """The name by which the job's cluster was asked for; empty = it is that of this process."""
        return self._chosen or self._of_settings

    @property
    def context(self) -> str:
        """The context of the kubeconfig that leads to the cluster of this process; empty = it is that of its pod."""
        return "" if self.home.access.in_pod else self.home.access.name

    @property
    def namespace(self) -> str:
        """The namespace of the job. LaunchError as `api`."""
        return (not self._chosen and self._namespace) or self.api.access.namespace

    @property
    def planned_namespace(self) -> str:
        """The namespace of the job without a request; `default` if it is not known.

        Raises:
            LaunchError: The kubeconfig has no such context.
        """
        if self._chosen:
            defined = self._settings.settings if self._settings else None
            known = defined.clusters_of(self._planned_home).get(self._chosen) if defined else None
            return (known and known.namespace) or "default"
        try:
            return self._namespace or access.find(self._context).namespace
        except AccessError as error:
            if self._context:  # the user chose this context
                raise LaunchError(str(error), retryable=False) from error
            return "default"

    def read_settings(self, options: Options) -> find.Found:
        """Return the settings, which are read once. Errors as `defined`."""
        if self._settings is None:
            try:
                self._settings = find.of_file(options) or find.of_namespace(self.home, self.home_namespace, options)
            except ApiError as error:
                what = f"whether the platform has settings for namespace {self.home_namespace} is not known: {error}"
                raise LaunchError(what, retryable=error.unavailable) from error
        return self._settings

    def with_settings(self, job: TrainingJob, options: Options) -> TrainingJob:
        """Return the job with the platform's settings, and go to the cluster that they or the job name.

        Raises:
            SpecError: The settings are wrong, or refuse the job, or there is no such cluster.
            LaunchError: Whether there are settings is not known.
        """
        lookup = self.read_settings(options)
        self.unset, self.warning = job, lookup.warning
        if lookup.settings is not None or FEATURES["personal"].uses(job):
            from tfsteps.settings.apply import apply  # noqa: PLC0415  most jobs need neither

            layers = lookup.settings.layers(self._planned_home) if lookup.settings else ()
            job = apply(job, layers, os.environ, lookup.source, options).job
        self._choose(job.other_cluster, lookup)
        return job

    def default(self, options: Options) -> str:
        """Return the cluster of jobs that name none; empty = that of this process. Errors as `with_settings`."""
        settings = self.read_settings(options).settings
        layers = [layer for _, layer in settings.layers(self._planned_home)] if settings else []
        parts = [*(layer.required for layer in layers), *(layer.defaults for layer in reversed(layers))]  # as `apply`
        name = next((part.cluster for part in parts if part.cluster), OWN_CLUSTER)
        return "" if name == OWN_CLUSTER else name

    def defined(self, options: Options) -> list[str]:
        """Return the names of the other clusters of the settings; `warning` is set if they may not be read.

        Raises:
            SpecError: The settings are wrong.
            LaunchError: Whether there are settings is not known.
        """
        lookup = self.read_settings(options)
        self.warning = lookup.warning
        return [*self._defined(lookup)]

    def other(self, name: str) -> "Api":
        """Return one of the `defined` clusters. LaunchError as `api`."""
        assert self._settings
        with _as_launch_error(f"cluster {name}"):
            return self._client(self._of_secret(name, self._defined(self._settings)[name]))

    def labelled(self, run: str) -> set[str]:
        """Return the other clusters that the pods of a run's launchers name; empty = none does, or none may be listed.

        Raises:
            LaunchError: The cluster does not answer.
        """
        selector = f"{RUN_ID}={label_value(run)},{CLUSTER}"
        try:
            pods = self.home.list(PODS, self.home_namespace, labelSelector=selector)["items"] or []
        except ApiError as error:
            if error.unavailable:
                raise LaunchError(f"the clusters of the run's jobs are not known: {error}", retryable=True) from error
            return set()
        return {pod["metadata"]["labels"][CLUSTER] for pod in pods}

    def _choose(self, name: str, lookup: find.Found) -> None:
        """Go to the cluster that a job names. SpecError if there is none of that name."""
        self._chosen = name
        self.__dict__.pop("api", None)
        if not name or name in self._defined(lookup):
            return
        try:
            access.find(name)
        except AccessError as error:
            source = lookup.source or "no platform settings were found"
            known = ", ".join([OWN_CLUSTER, *self._defined(lookup)])
            fix = f"Correct it, or ask the platform's operator to define it in `clusters` ({source})"
            wrong = f"is no cluster: {error}" if not isinstance(error, NoContextError) else "is not a cluster"
            problem = Problem(path=("cluster",), value=shown(name), wrong=wrong, allowed=known, fix=fix)
            raise SpecError([problem], self.unset.name if self.unset else "") from error

    def _defined(self, lookup: find.Found) -> "dict[str, Cluster]":
        return lookup.settings.clusters_of(self._planned_home) if lookup.settings else {}

    @functools.cached_property
    def _of_settings(self) -> str:
        """The context, if it is the name of a cluster of the settings: the kubeconfigs have no such context.

        Or if a job was launched by that name: then the settings come first, as they did at the launch.
        """
        if self._launched_from:
            return self._context
        if self._context:
            try:
                access.find(self._context)
            except NoContextError:
                return self._context
            except AccessError:  # whoever uses it gets the reason
                pass
        return ""

    @property
    def home_namespace(self) -> str:
        """The namespace of the settings: the one that was chosen, unless it is a namespace of the other cluster."""
        recorded = self._launched_from.namespace if self._launched_from else ""
        return (recorded if self._of_settings else self._namespace) or self.home.access.namespace

    @property
    def _planned_home(self) -> str:
        """The namespace of the settings; `default` if no cluster is configured: a file of settings needs none."""
        try:
            return self.home_namespace
        except LaunchError:
            if self._context:  # the user chose this context
                raise
            return self._namespace or "default"

    def _access(self, name: str) -> "Access":
        """Return the address and the credentials of another cluster."""
        lookup = self._settings or find.of_file() or find.of_namespace(self.home, self.home_namespace)
        if cluster := self._defined(lookup).get(name):
            return self._of_secret(name, cluster)
        try:
            other = access.find(name)
        except NoContextError as error:
            where = lookup.source or lookup.warning or f"namespace {self.home_namespace} has no platform settings"
            known = ", ".join(self._defined(lookup)) or "none"
            raise AccessError(f"{error}. Nor is it a cluster of the platform settings ({where}): {known}") from error
        return msgspec.structs.replace(other, cluster=name)

    def _of_secret(self, name: str, cluster: "Cluster") -> "Access":
        from tfsteps.kube import kubeconfig  # noqa: PLC0415  most launchers in pods need none

        namespace, secret = self.home_namespace, cluster.kubeconfig.secret
        key = cluster.kubeconfig.key or name
        where = f"cluster {name}: Secret {namespace}/{secret}"
        try:
            get = functools.partial(self.home.get, _SECRETS, namespace, secret)
            data = self.home.settled(get).get("data") or {}
        except ApiError as error:
            if error.unavailable or not (error.missing or error.status == 403):
                raise
            if error.missing:
                fix = f"`kubectl create secret generic {secret} -n {namespace} --from-file={key}=KUBECONFIG` creates it"
                raise AccessError(f"{where} does not exist; {fix}") from error
            fix = "grant `get` for it, as Role `tfsteps-clusters` of `manifests/clusters` does"
            raise AccessError(f"{where} cannot be read: {error}; {fix}") from error
        if key not in data:
            raise AccessError(f"{where} has no key {key!r}: it has {', '.join(sorted(data)) or 'none'}; add it")
        where = f"{where}, key {key}"
        try:
            text = base64.b64decode(data[key], validate=True).decode()
        except (binascii.Error, ValueError):
            raise AccessError(f"{where} is not text; write a kubeconfig into it") from None
        access = kubeconfig.parse(text, where, cluster.context or "")
        return msgspec.structs.replace(
            access,
            name=f"cluster {name} ({access.server}, Secret {namespace}/{secret})",
            cluster=name,
            namespace=cluster.namespace or access.namespace,
        )

    def _client(self, access: "Access") -> "Api":
        from tfsteps.kube.client import Api  # noqa: PLC0415  checks and dry runs of a job send no request

        api = Api(access) if self._patience is None else Api(access, self._patience)
        api.stopping = self.stopping
        return api


@contextlib.contextmanager
def _as_launch_error(what: str) -> Iterator[None]:
    """Turn errors of the way to a cluster into a LaunchError; the step fails as for an API that does not answer."""
    try:
        yield
    except AccessError as error:
        raise LaunchError(str(error), retryable=False) from error
    except ApiError as error:
        raise LaunchError(f"how to reach {what} is not known: {error}", retryable=error.unavailable) from error


def kubectl_delete(where: "Access", resource: Resource, namespace: str, name: str) -> str:
    """Return the command line that deletes a job, for a message."""
    context = f", with the kubeconfig of {where.name}" if where.cluster else ""
    return f"kubectl delete {resource.plural} {name} --namespace {namespace}{context}"
