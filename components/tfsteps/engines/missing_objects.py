"""Checks before a submission whether the objects that a pipeline's pods refer to exist; else a step stays Pending."""

from collections.abc import Iterable, Iterator

from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.systems.kubernetes.preflight.references import ACCOUNTS, Reference


def missing(api: Api, namespace: str, references: Iterable[Reference]) -> Iterator[str]:
    """Yield a warning for each object that does not exist in a namespace. Objects that cannot be read are skipped.

    This is not an error: a step of the pipeline may create the object, and pods wait until it exists.

    Raises:
        ApiError: The cluster does not answer.
    """
    for resource, name in dict.fromkeys((reference.resource, reference.name) for reference in references):
        try:
            api.get(resource, namespace, name, once=True)
        except ApiError as error:
            if error.missing:
                effect = "pods that run as it are refused" if resource == ACCOUNTS else "steps that use it stay Pending"
                where = f"{resource.kind} {namespace}/{name} is missing on {api.access.name}"
                yield f"{where}: {effect} until it is created; create it, or correct its name"
            elif error.unavailable:
                raise
