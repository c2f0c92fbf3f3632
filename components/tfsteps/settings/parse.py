"""Reads platform settings, or all of their problems, from a text."""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from tfsteps.settings.types import Layer, Settings
from tfsteps.spec import Options, Path, SpecError, format_bytes, from_plain
from tfsteps.spec.decode import decode
from tfsteps.spec.parse import to_plain
from tfsteps.spec.problems import FileKind, Problem, problem
from tfsteps.spec.types import OWN_CLUSTER

_SETTINGS_FILE = FileKind(
    name="settings",
    path=("settings",),
    start="Start with `defaults:`, `required:` or `limits:`",
    manifest="Give the text that the ConfigMap has below `settings.yaml`",
)
_JOB = {"name": "settings", "image": "settings", "roles": {"worker": {}}}


def parse(text: str, source: str, options: Options | None = None) -> Settings:
    """Return the settings in a YAML or JSON text.

    Args:
        text: The text; empty = no settings.
        source: Its name in messages.
        options: The job systems that `systems:` may name; None = any.

    Raises:
        SpecError: It contains all problems of the text.
    """
    from tfsteps.spec import yaml_text  # noqa: PLC0415  most launchers have no settings, and need no yaml

    if not text.strip():
        return Settings()
    document = yaml_text.parse(text, source, _SETTINGS_FILE)
    settings, field_problems = decode(document, Settings)
    problems = [*document.problems, *field_problems] or list(_problems(settings, options))
    if problems:
        placed = [msgspec.structs.replace(item, line=item.line or document.line(item.path)) for item in problems]
        raise SpecError(sorted(placed, key=lambda item: item.line or 0), source)
    return settings


def load(path: str, options: Options | None = None) -> Settings:
    """Return the settings in a file. SpecError as `parse`, also if the file cannot be read."""
    try:
        with open(path, encoding="utf-8-sig") as file:  # noqa: PTH123  as in `spec.load`
            return parse(file.read(), path, options)
    except OSError as error:
        wrong, fix = f"cannot be read: {error.strerror or error}", "Give the path of a YAML file that can be read"
    except UnicodeDecodeError as error:
        wrong, fix = f"is not UTF-8 (byte {error.start})", "Save the file as UTF-8"
    raise SpecError([Problem(path=_SETTINGS_FILE.path, wrong=wrong, fix=fix)], path)


def _problems(settings: Settings, options: Options | None) -> Iterator[Problem]:
    """Yield what the types do not say: fields by the rules of jobs, and what a namespace would get twice."""
    yield from _of_layer(settings, (), options)
    yield from _clusters(settings, (), settings.clusters)
    yield from _defaults_above_limits(settings)
    owners: dict[str, str] = {}
    for name, project in settings.projects.items():
        yield from _of_layer(project, ("projects", name), options)
        yield from _clusters(project, ("projects", name), {**settings.clusters, **project.clusters})
        for i, namespace in enumerate(project.namespaces):
            if (owner := owners.setdefault(namespace, name)) != name:
                path = ("projects", name, "namespaces", i)
                yield problem(path, f"belongs to project {owner}, too", "Remove it from one of them", namespace)
        yield from _contradictions(to_plain(settings.required), to_plain(project.required), name, ())


def _defaults_above_limits(settings: Settings) -> Iterator[Problem]:
    """Yield the default resources that the limits refuse in every job that gets them."""
    platform: tuple[Path, Layer] = ((), settings)
    projects: list[tuple[Path, Layer]] = [(("projects", name), project) for name, project in settings.projects.items()]
    reported = set()
    for layers in [[platform], *([project, platform] for project in projects)]:
        for field, shown in (("cpu", "{:g} cores".format), ("memory", format_bytes)):
            most = next((most for _, layer in layers if (most := getattr(layer.limits, field)) is not None), None)
            for at, layer in layers:
                resources = layer.defaults.resources
                of_limits = getattr(resources.limits, field)
                amount = getattr(resources, field) if of_limits is None else of_limits
                if amount is None:
                    continue
                path = (*at, "defaults", "resources", *([] if of_limits is None else ["limits"]), field)
                if most is not None and amount > most and path not in reported:
                    reported.add(path)
                    wrong = "is above the limit, so that jobs that set none are refused"
                    yield problem(path, wrong, f"Lower it, or raise `limits.{field}`", shown(amount), shown(most))
                break  # what a project sets counts before the platform's


def _of_layer(layer: Layer, path: tuple[str, ...], options: Options | None) -> Iterator[Problem]:
    if OWN_CLUSTER in layer.clusters:
        fix = "Choose another name"
        yield problem((*path, "clusters", OWN_CLUSTER), "is the name of the cluster of the step", fix, OWN_CLUSTER)
    for field in ("defaults", "required"):
        fields = {key: value for key, value in to_plain(getattr(layer, field)).items() if key != "resources"}
        try:
            from_plain({**_JOB, **fields}, options=options)
        except SpecError as error:
            for item in error.problems:
                yield msgspec.structs.replace(item, path=(*path, field, *item.path))


def _clusters(layer: Layer, path: tuple[str, ...], defined: Collection[str]) -> Iterator[Problem]:
    for field in ("defaults", "required"):
        name = getattr(layer, field).cluster
        if name not in (None, OWN_CLUSTER, *defined):
            fix = "Correct it, or define it in `clusters`"
            known = ", ".join([OWN_CLUSTER, *defined])
            yield problem((*path, field, "cluster"), "is not a cluster of the settings", fix, name, known)


def _contradictions(platform: Any, project: Any, name: str, path: tuple[str, ...]) -> Iterator[Problem]:
    if isinstance(platform, dict) and isinstance(project, dict):
        for key in platform.keys() & project.keys():
            yield from _contradictions(platform[key], project[key], name, (*path, key))
    elif platform != project and not isinstance(platform, list):
        where = ("projects", name, "required", *path)
        yield problem(where, "contradicts `required` of the platform", "Remove one of the two", str(project))
