"""The demos of a namespace, for what is deleted or stopped together with another object: a run with its jobs."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource
from tfsteps.runs.demo import SELECTOR, mark_of
from tfsteps.runs.identity import RUN_ID
from tfsteps.systems.kubernetes.preflight.discovery import served


def list_demos(api: Api, namespace: str, resources: Iterable[Resource]) -> Iterator[tuple[Resource, Mapping[str, Any]]]:
    """Yield the demos of some kinds, with their kind.

    Args:
        api: The cluster.
        namespace: Where to look; empty = everywhere.
        resources: The kinds; those that the cluster does not serve have no demos.

    Raises:
        ApiError: A kind cannot be listed: whether it has demos is not known.
    """
    refused: dict[str, tuple[Resource, ApiError]] = {}
    for resource in resources:
        try:
            for item in api.iterate(resource, namespace, labelSelector=SELECTOR):
                if mark_of(item):
                    yield resource, item
        except ApiError as error:
            if error.status not in (403, 404):  # both are answered for a kind that is not served, and for one that is
                raise
            refused[f"{resource.plural}.{resource.api}"] = resource, error
    if refused:
        for name in served(api, {name: resource for name, (resource, _) in refused.items()}):
            raise refused[name][1]


def runs_of(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a demo protects, as namespace and uid: the object itself, its owners, and the run that launched it."""
    meta = item["metadata"]
    run = (meta.get("labels") or {}).get(RUN_ID, "")
    for uid in (meta["uid"], *(owner["uid"] for owner in meta.get("ownerReferences") or []), run):
        yield meta["namespace"], uid
