"""Writes recommendations into the text of a job file: only the amounts change, comments and layout stay."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import yaml

from tfsteps.spec import Options, Path, Resources, SpecError, TrainingJob, dotted, parse
from tfsteps.spec.pod import Limits
from tfsteps.tuning.recommendation import Advice, Resource, amount_of, range_of, written
from tfsteps.yaml_reader import Loader, compose


class EditError(Exception):
    """The text is written in a way in which the amounts cannot be replaced; the message says what to write by hand."""


def tuned_text(text: str, source: str, advices: Sequence[Advice], options: Options | None = None) -> str:
    """Return the text of a job file with what is recommended.

    Args:
        text: The file's: YAML or JSON, a valid job.
        source: Its name in messages.
        advices: Of the job of this file; those without a change have no effect.
        options: The job systems that the job may name; None = any.

    Raises:
        EditError: The result would not be the same job with these amounts: they come from a merge (`<<`), for example.
    """
    by_field = {(advice.path, advice.resource): advice for advice in advices if advice.changed}
    if not by_field:
        return text
    root = compose(text, Loader)
    result = text
    for start, end, new in sorted({*_changes(root, by_field)}, reverse=True):
        result = result[:start] + new + result[end:]
    if not _is_right(text, result, source, advices, options):
        fields = [f"{dotted((*path, name))}: {range_of(name, advice.new)}" for (path, name), advice in by_field.items()]
        raise EditError(f"{source}: its text cannot be changed by a program; write by hand: {'; '.join(fields)}")
    return result


def _is_right(text: str, result: str, source: str, advices: Sequence[Advice], options: Options | None) -> bool:
    """Tell whether the result has the amounts that are recommended, and is otherwise the same job."""
    try:
        before, after = parse(text, source, options), parse(result, source, options)
    except SpecError:
        return False
    roles = after.resolved_roles()
    amounts = all(a.new in (None, amount_of(roles[a.role].resources, a.resource)) for a in advices)
    return amounts and _without_amounts(before) == _without_amounts(after)


def _without_amounts(job: TrainingJob) -> TrainingJob:
    def cleared(need: Resources) -> Resources:
        return msgspec.structs.replace(need, cpu=None, memory=None, limits=Limits())

    roles = {
        name: msgspec.structs.replace(role, resources=None if role.resources is None else cleared(role.resources))
        for name, role in job.roles.items()
    }
    return msgspec.structs.replace(
        job, resources=cleared(job.resources), roles=msgspec.structs.replace(job.roles, **roles)
    )


def _changes(
    root: yaml.Node | None, by_field: Mapping[tuple[Path, Resource], Advice]
) -> Iterator[tuple[int, int, str]]:
    """Yield the parts of the text to replace, in characters from its beginning, and what replaces them."""
    missing: dict[Path, dict[str, str]] = {}
    for (path, name), advice in by_field.items():
        resources = _at(root, path)
        limit, amount = _at(resources, ("limits", name)), _at(resources, (name,))
        assert advice.new is not None
        if limit is not None:
            yield _replaced(limit, written(name, advice.new.limit))
        if amount is not None:
            is_range = "~" in str(amount.value)
            yield _replaced(amount, range_of(name, advice.new) if is_range else written(name, advice.new.request))
        elif limit is None:
            missing.setdefault(path, {})[name] = range_of(name, advice.new)
    for path, amounts in missing.items():
        yield _inserted(root, path, amounts)


def _at(node: yaml.Node | None, path: Path) -> yaml.Node | None:
    """Return the node at a path below a node; None = there is none, or a merge (`<<`) has it."""
    for key in path:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        node = next((value for name, value in pairs if name.value == key), None)
    return node


def _replaced(node: yaml.Node, text: str) -> tuple[int, int, str]:
    style = getattr(node, "style", "")  # of scalars
    quote = style if style in ("'", '"') else ""
    return node.start_mark.index, node.end_mark.index, f"{quote}{text}{quote}"


def _inserted(root: yaml.Node | None, path: Path, amounts: Mapping[str, str]) -> tuple[int, int, str]:
    """Return the change that adds amounts to the resources at a path; if there are none, resources before `roles`."""
    assert isinstance(root, yaml.MappingNode)
    quote = '"' if root.flow_style else ""  # JSON
    entries = [f"{quote}{name}{quote}: {quote}{amount}{quote}" for name, amount in amounts.items()]
    mapping = _at(root, path)
    if not isinstance(mapping, yaml.MappingNode):
        mapping, entries = root, [f"{quote}resources{quote}: {{{', '.join(entries)}}}"]
    if mapping.flow_style:
        start = mapping.start_mark.index + 1
        return start, start, ", ".join([*entries, *([""] if mapping.value else [])])
    keys = [key for key, _ in mapping.value]
    mark = next((key for key in keys if key.value == "roles"), keys[0]).start_mark
    return mark.index, mark.index, "".join(f"{entry}\n{' ' * mark.column}" for entry in entries)
