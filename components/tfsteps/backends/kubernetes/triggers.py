"""What started the runs of pipelines on a cluster: a user, or a schedule."""

from tfsteps.console.messages import warn
from tfsteps.engines.registry import engine_objects
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError

UNKNOWN = "unknown"


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
