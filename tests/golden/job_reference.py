"""docs/reference/job.md: the fields of each type of a job file, from the types and their docstrings."""

import functools
import typing

import msgspec
from msgspec import inspect as mi

from tests.support.markdown import entry, wrapped
from tfsteps.spec import TrainingJob, format_duration
from tfsteps.spec.fields import Filled, Text
from tfsteps.spec.schema import attributes, structs, summary
from tfsteps.spec.units import Cpu, Duration, Memory

INTRO = """# The job file

<!-- Written by `make golden` from the types in components/tfsteps/spec. -->

One YAML or JSON file describes one job. `tfsteps validate job.yaml` reports every problem with its line;
`tfsteps schema` prints a JSON Schema for editors. YAML is read as version 1.2, so `on`, `no` and `1:30` are text. Where
text is expected, numbers and `true` are kept as written.

Leave out what you do not need. A field that is left out is empty, unless its entry names a default.

[One small file for each feature](#examples); a whole job:"""


def page(options, examples, whole):
    """Return the page.

    Args:
        options: The job systems with the type of their options, or None.
        examples: Paths of the example files.
        whole: Text of the one that is shown.
    """
    systems = {type_: name for name, type_ in options.items() if type_}
    sections = [section(type_, "Job" if type_ is TrainingJob else type_.__name__) for type_ in structs(TrainingJob)]
    for options_type, name in systems.items():
        sections.append(section(options_type, f"Options of `systems: {{{name}: …}}`"))
        sections += [section(nested, nested.__name__) for nested in structs(options_type)[1:]]
    return "\n\n".join([INTRO, f"```yaml\n{whole}```", *sections, amounts(), gallery(examples)]) + "\n"


def amounts():
    entries = [
        entry(f"**{name}**", f"{amount.description}. Examples: {', '.join(f'`{text}`' for text in amount.examples)}.")
        for name, amount in AMOUNTS
    ]
    return "\n".join(["## Amounts\n", *entries])


def gallery(examples):
    entries = [entry(f"[{path.name}](../examples/{path.name})", shows(path)) for path in examples]
    return "\n".join(["## Examples\n", *entries])


def shows(path):
    first = path.read_text().splitlines()[0]
    return first.removeprefix("# ") if first.startswith("# ") else "A job file in JSON."


def section(type_, title):
    """Return a heading, the type's summary and its fields."""
    meanings = attributes(type_)
    fields = mi.type_info(type_).fields
    entries = [entry(f"**`{f.encode_name}`**", meanings[f.name], [words(f.type), default(f)]) for f in fields]
    return "\n".join([f"## {title}\n\n{wrapped(summary(type_))}\n", *entries])


@functools.singledispatch
def words(info):
    """Return what kind of value a type is, in words."""
    return {mi.BoolType: "`true` or `false`", mi.AnyType: "anything"}[type(info)]


@words.register
def _(info: mi.Metadata):
    described = (info.extra_json_schema or {}).get("description")
    return SHORT.get(described, described) or words(info.type)


@words.register
def _(info: mi.UnionType):
    return ", or ".join(words(choice) for choice in info.types if not isinstance(choice, mi.NoneType))


@words.register
def _(info: mi.LiteralType):
    return ", ".join(f"`{value}`" for value in info.values)


@words.register
def _(info: mi.StructType):
    name = info.cls.__name__
    return f"[{name}](#{name.lower()})"


@words.register
def _(info: mi.VarTupleType):
    return f"a list, each {words(info.item_type)}"


@words.register
def _(info: mi.DictType):
    key, value = words(info.key_type), words(info.value_type)
    if value == "anything":
        return "a mapping"
    return f"a mapping; names: {key}; values: {value}" if key != "text" else f"a mapping of text to {value}"


@words.register
def _(_info: mi.StrType):
    return "text"


def default(field):
    """Return a field's default as a job file would say it; empty = the field is then empty."""
    if field.required:
        return "required"
    value = field.default_factory() if field.default is mi.NODEFAULT else field.default
    if value in (None, (), {}) or isinstance(value, msgspec.Struct):
        return ""
    if isinstance(value, tuple):
        value = f"[{', '.join(map(str, value))}]"
    if words(field.type) == "[duration](#amounts)":
        value = format_duration(value)
    return f"default `{str(value).lower() if isinstance(value, bool) else value}`"


def meta(alias):
    return typing.get_args(alias)[1]


AMOUNTS = [("duration", meta(Duration)), ("memory", meta(Memory)), ("cpu", meta(Cpu))]
SHORT = {amount.description: f"[{name}](#amounts)" for name, amount in AMOUNTS} | {
    meta(alias).description: "text" for alias in (Text, Filled)
}
