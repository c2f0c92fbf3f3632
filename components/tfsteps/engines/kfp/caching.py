"""Checks tasks whose result may be taken from the cache of the back end."""

from collections.abc import Iterator
from typing import Any

from tfsteps.engines.kfp.driver_rules import is_finalizer
from tfsteps.engines.kfp.graph import PROGRAM, Call
from tfsteps.spec.step_inputs import plain_job

FINGERPRINT = "FINGERPRINT"
"""The variable of a cached training step whose value changes with its program and its data."""


def lint_messages(call: Call, known: dict[str, Any], unknown: list[str]) -> Iterator[str]:
    """Yield why a step of tfsteps must not be taken from the cache.

    Only `train` may be: its outputs are the whole result. What decides it must then be in its inputs, because the key
    of the cache has the inputs and the launcher's container, not the image of the replicas, their files or the data.

    Args:
        call: The task.
        known: The inputs of the step that are constant, with its defaults.
        unknown: The names of the others.
    """
    options = call.task.get("cachingOptions", {})
    if not options.get("enableCache") or not any(PROGRAM.fullmatch(word) for word in call.container.get("command", [])):
        return
    if call.step != "train":
        yield "a launcher taken from the cache runs no job; call set_caching_options(False)"
        return
    job = plain_job(known)
    lacks = {
        "no `cache_key`, which would replace the inputs": bool(options.get("cacheKey")),
        'run_id="", because the id of the run is another one each time': known.get("run_id") != "",
        "an image with a digest, name@sha256:...": not {"spec", "image"} & {*unknown} and not _pinned(job),
        f"the variable {FINGERPRINT} in `env`, of program and data": not {"spec", "env"} & {*unknown}
        and not (job.get("env") or {}).get(FINGERPRINT),
    }
    if missing := [what for what, is_missing in lacks.items() if is_missing]:
        yield (
            "a training step taken from the cache runs no job: to be taken only when nothing has changed, it needs "
            f"{'; '.join(missing)}. Add what is missing, or call set_caching_options(False)"
        )


def warnings(call: Call) -> Iterator[str]:
    """Find finalizers of the author's own that may be taken from the cache; of ours that is a problem."""
    if call.task.get("cachingOptions", {}).get("enableCache") and is_finalizer(call.task) and not call.step:
        yield "a finalizer taken from the cache does nothing; call set_caching_options(False), unless that is meant"


def _pinned(job: dict[str, Any]) -> bool:
    """Return whether each role has an image, and all images have a digest or come from the run."""
    roles = job.get("roles") or {}
    images = [role["image"] for role in roles.values() if isinstance(role, dict) and role.get("image")]
    if not images or len(images) < len(roles):
        images.append(job.get("image", ""))
    return all("@sha256:" in str(image) or "{{$" in str(image) for image in images)
