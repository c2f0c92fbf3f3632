"""Pipelines on a cluster: what started them, and those that failed without a job, or whose jobs are gone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from tfsteps.console.messages import warn
from tfsteps.engines import registry
from tfsteps.engines.engine_objects import EngineObjects
from tfsteps.engines.registry import engine_objects
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS
from tfsteps.runs.demo import mark_of
from tfsteps.runs.events import State
from tfsteps.runs.graph import Node, NodeKind
from tfsteps.runs.identity import RUN_ID, STEP, label_value
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.systems.kubernetes.query import parts
from tfsteps.systems.kubernetes.query.runs import ClusterJob
from tfsteps.systems.kubernetes.times import by_age

_LAUNCHERS = {"train", "launch"}
_Item = Mapping[str, Any]
UNKNOWN = "unknown"


def failed_pipelines(api: Api, namespace: str, jobs: Iterable[ClusterJob]) -> list[PipelineRecord]:
    """Return the Workflows with a launcher that failed and without a job, the oldest first.

    The templates for Argo label the pods of launchers. Under Kubeflow Pipelines a launcher that fails without a job
    labels its own, if it may.

    Args:
        api: The cluster.
        namespace: Where to look; empty = everywhere.
        jobs: All that exist there.
    """
    known = {label_value(job.status.identity.run) for job in jobs} | {job.workflow for job in jobs}
    records = [record for objects in registry.engine_objects() for record in _failed(api, namespace, objects, known)]
    return sorted(records, key=lambda record: record.created)


def _failed(api: Api, namespace: str, objects: EngineObjects, known: AbstractSet[str]) -> Iterator[PipelineRecord]:
    """Yield the failed runs with such an object, except those whose run label or name is `known`."""
    runs: dict[tuple[str, str], list[_Item]] = {}
    try:
        for pod in api.iterate(PODS, namespace, labelSelector=f"{RUN_ID},{STEP},{objects.pod_label}"):
            labels = pod["metadata"].get("labels") or {}
            run, name = labels.get(RUN_ID, ""), labels.get(objects.pod_label, "")
            if labels.get(STEP) in _LAUNCHERS and known.isdisjoint((run, name)):
                runs.setdefault((run, name), []).append(pod)
    except ApiError as error:
        if error.status not in (403, 404):
            raise
    for (run, name), pods in runs.items():
        if record := _record(run, name, by_age(pods), objects):
            yield record


def _record(run: str, workflow: str, pods: Sequence[_Item], objects: EngineObjects) -> PipelineRecord | None:
    """Return how a Workflow ended by its launchers' pods; None = one may still run, or none failed."""
    newest = {objects.step_of(pod): pod for pod in pods}
    nodes = [parts.pod_node(pod, NodeKind.LAUNCHER, "main") for pod in newest.values()]
    failed = next((node for node in nodes if node.state == "failed"), None)
    if failed is None or any(node.state not in ("failed", "succeeded") for node in nodes):
        return None
    created = min(node.started or 0.0 for node in nodes)
    return PipelineRecord(
        run=run,
        pipeline=objects.pipeline_name(workflow),
        state=State.FAILED,
        message=_last_words(newest.values(), failed),
        created=created,
        ended=max(node.ended or created for node in nodes),
        workflow=workflow,
        demo=mark_of(pods[-1]),
    )


def _last_words(pods: Iterable[_Item], failed: Node) -> str:
    """Return what the launcher that failed wrote as its termination message; else what its pod shows."""
    item = next(pod for pod in pods if pod["metadata"]["name"] == failed.name)
    for container in (item.get("status") or {}).get("containerStatuses") or []:
        ended = (container.get("state") or {}).get("terminated") or {}
        if container["name"] == "main" and (text := str(ended.get("message") or "").strip()):
            return text.splitlines()[-1]
    return failed.message


def triggers(api: Api, namespace: str) -> dict[str, str]:
    """Return manual, scheduled or `UNKNOWN` by the name of a run's object; what was not found is not known either.

    Args:
        api: The cluster.
        namespace: Where to look; empty = everywhere. Runs of one name that differ are not known.
    """
    found: dict[str, set[str]] = {}
    for objects in engine_objects():
        try:
            for item in api.iterate(objects.resource, namespace):
                found.setdefault(item["metadata"]["name"], set()).add(objects.trigger_of(item) or UNKNOWN)
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            if error.status == 403:
                warn(f"what started the runs is not known, without the permission to list {objects.resource.plural}")
    return {name: values.pop() if len(values) == 1 else UNKNOWN for name, values in found.items()}
