"""YAML of others: what crashes, hangs or fails PyYAML is a value or a YamlError, in every place that reads YAML."""

import ast
import pathlib
import re

import pytest

import tfsteps
from tfsteps import schedule, spec, yaml_reader
from tfsteps.cli import compiled
from tfsteps.console.errors import CommandError
from tfsteps.engines.kfp import object_store
from tfsteps.kube import kubeconfig
from tfsteps.kube.credentials import AccessError
from tfsteps.platforms.hai import access as hai_access

PACKAGE = pathlib.Path(tfsteps.__file__).parent
PARSERS = re.compile(r"(safe_|full_|unsafe_)?load(_all)?|parse|scan|compose(_all)?|\w*Loader")
CHAIN = "\n".join(f"a{i}: &a{i} [{f'*a{i - 1}' if i else ''}]" for i in range(200))
REFUSED = {
    "deep mappings": ("a: " + "{a: " * 60_000 + "1" + "}" * 60_000, "is nested more than 100 levels deep"),
    "deep lists": ("a: " + "[" * 60_000, "is nested more than 100 levels deep"),
    "deep blocks": ("- " * 60_000 + "a", "is nested more than 100 levels deep"),
    "deep aliases": (CHAIN, "has aliases that expand to more than 100 levels"),
    "itself": ("a: &a [*a]", "has an alias that refers to itself"),
    "merges itself": ("a: &a {<<: *a}", "has an alias that refers to itself"),
    "quadratic merge": (
        f"x: &a {{{', '.join(f'k{i}: 1' for i in range(6_000))}}}\ny: {{<<: [{', '.join(['*a'] * 8_000)}]}}",
        "has aliases that expand to more than",
    ),
    "billion laughs": (
        "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 'x'}]" for i in range(9)),
        "has aliases that expand to more than",
    ),
    "control characters": ("a: \x00", "contains control characters"),
    "surrogates": ("a: \ud800", "contains characters that are not Unicode"),
    "unknown tag": ("a: !!python/object:os.system x", "could not determine a constructor"),
    "bytes": ("a: !!binary aGk=", "could not determine a constructor"),
    "unhashable key": ("{[a]: b}", "unhashable key"),
}  # fmt: skip
READ = [
    ("2026-13-45", "2026-13-45"),
    ("2026-12-01", "2026-12-01"),
    ("!!timestamp 2026-13-45", "2026-13-45"),
    ("9" * 6000, "9" * 6000),
    ("0x" + "f" * 6000, "0x" + "f" * 6000),
    ("1" + ":59" * 3000, "1" + ":59" * 3000),
    ("1" + ":59" * 3000 + ".5", "1" + ":59" * 3000 + ".5"),
    ("1e999", "1e999"),
    ("!!int abc", "abc"),
    ("!!int ''", ""),
    ("!!float ''", ""),
    ("!!bool perhaps", "perhaps"),
    ("yes", True),
    ("010", 8),
    ("12", 12),
    ("1.5", 1.5),
    ("~", None),
]


@pytest.mark.parametrize(("text", "wrong"), REFUSED.values(), ids=REFUSED)
def test_a_text_that_no_machine_should_read_is_refused(text, wrong):
    with pytest.raises(yaml_reader.YamlError) as caught:
        yaml_reader.documents(text)
    assert wrong in caught.value.wrong


@pytest.mark.parametrize(("text", "value"), READ)
def test_odd_numbers_and_dates_are_text(text, value):
    assert yaml_reader.document(f"a: {text}") == {"a": value}


def test_documents_have_the_values_that_engines_read():
    text = "base: &b {x: 1, y: 2}\nmerged: {<<: *b, y: 3}\n---\n---\n- a\n"
    assert yaml_reader.documents(text) == [{"base": {"x": 1, "y": 2}, "merged": {"x": 1, "y": 3}}, None, ["a"]]
    assert yaml_reader.documents('{\t"a": "\\ud83d\\ude00"}') == [{"a": "😀"}]


def test_a_long_text_without_aliases_is_read():
    assert len(yaml_reader.document("[" + ",".join("a" * 150_000) + "]")) == 150_000


@pytest.mark.parametrize(("text", "_wrong"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("line", ["", "when: 2026-13-45\n"])
def test_every_reader_of_yaml_says_what_is_wrong(tmp_path, monkeypatch, text, _wrong, line):
    file = tmp_path / "file.yaml"
    file.write_text(line + text, "utf-8", errors="surrogatepass")
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setenv("HFAI_CLIENT_CONFIG", str(file))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MARSV2_SERVER", raising=False)
    readers = [
        (lambda: compiled.read(str(file)), CommandError),
        (lambda: spec.load(file), spec.SpecError),
        (lambda: schedule.load(file), spec.SpecError),
        (kubeconfig.find, AccessError),
        (hai_access.find, AccessError),
        (lambda: object_store.store_settings("s3://a/b", {"providers": line + text}, ""), object_store.StoreError),
    ]
    for read, error in readers:
        with pytest.raises(error):
            read()


def test_no_other_module_parses_yaml():
    uses = []
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(r"\byaml\b", text) else ():
            of_yaml = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "yaml"
            if of_yaml and PARSERS.fullmatch(node.attr):
                uses.append(f"{file.relative_to(PACKAGE)}: yaml.{node.attr}")
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "yaml":
                uses.append(f"{file.relative_to(PACKAGE)}: from yaml")
    assert [place for place in uses if not place.startswith("yaml_reader.py")] == []
