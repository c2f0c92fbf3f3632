"""The input `code` of a step: packed by authors' calls of both engines, unpacked by the launcher."""

import os
import pathlib

import pytest
from hera.workflows import DAG, Workflow

from tests.support.code_store import served
from tests.support.kfp_compiler import compiled
from tfsteps import argo
from tfsteps.engines.argo.inputs import input_problems as argo_problems
from tfsteps.engines.argo.interface import interfaces
from tfsteps.engines.code_input import unpacked_code, with_packed_code
from tfsteps.engines.kfp import lint
from tfsteps.kfp import launch, train, train_and_finalize
from tfsteps.runs import code_archive
from tfsteps.spec import SpecError

FIELDS = {"name": "a", "image": "tf:2", "command": ["python", "train.py"], "workers": 2}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    monkeypatch.chdir(folder)
    return folder


def digest(folder):
    return code_archive.pack(folder).digest


def test_kubeflow_pipelines_carry_the_code(folder, tmp_path):
    def pipeline():
        train(code=".", **FIELDS)
        launch(code=folder, **FIELDS)
        train(spec={"code": {"folder": "."}}, **FIELDS)
        train_and_finalize(code=".", **FIELDS)

    text = compiled(pipeline, tmp_path)
    assert text.count(code_archive.to_text(digest(folder))) == 4
    assert lint.lint_messages(text) == []


def test_argo_workflows_carry_the_code(folder):
    with Workflow(generate_name="a-", entrypoint="main") as workflow, DAG(name="main"):
        argo.train("fit", code=".", **FIELDS)
        argo.train("again", spec={"code": "."}, **FIELDS)
    assert workflow.to_yaml().count(digest(folder)) == 2


def test_pipelines_carry_the_bucket_of_the_code(folder, tmp_path):
    pathlib.Path("weights").write_bytes(os.urandom(60_000))
    with served() as (store, address):
        source = {"folder": ".", "bucket": f"{address}/code"}

        def pipeline():
            train(code=source, **FIELDS)
            train(spec={"code": source}, **FIELDS)

        text = compiled(pipeline, tmp_path)
    packed = f"{digest(folder)}@{address}/code"
    assert text.count(packed) == 2
    assert lint.lint_messages(text) == []
    assert [*store.objects.values()] == [code_archive.read(digest(folder))]
    assert unpacked_code({"code": packed}) == {"code": {"digest": digest(folder), "bucket": f"{address}/code"}}
    with pytest.raises(code_archive.CodeError, match=r"code \{'bucket': 'ftp://a'\} is wrong"):
        with_packed_code({"code": {"bucket": "ftp://a"}})


def test_references_and_packed_text_stay(folder):
    packed = with_packed_code({"code": "."})
    assert with_packed_code(packed) == packed
    for inputs in ({"code": "{{inputs.parameters.code}}"}, {"code": ""}, {"name": "a"}, {"spec": {"name": "a"}}):
        assert with_packed_code(inputs) == inputs


def test_a_launcher_keeps_the_code_and_runs_it(folder, monkeypatch, tmp_path):
    packed = with_packed_code({"code": "."})
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "pod"))
    assert unpacked_code(packed) == {"code": {"digest": digest(folder)}}
    assert unpacked_code({"code": ""}) == unpacked_code({}) == {}
    with pytest.raises(SpecError, match="it is not packed code"):
        unpacked_code({"code": "."})


def test_a_folder_in_a_manifest_is_found_before_it_runs():
    texts = {"name": "a", "image": "i:1", "command": '["a"]', "workers": "1", "code": "."}
    [problem] = argo_problems(interfaces()["train"], texts)
    assert "a pod cannot read a folder of the author's machine" in str(problem)


def test_too_much_code_fails_the_compilation_with_the_largest_file(folder):
    pathlib.Path("weights").write_bytes(os.urandom(60_000))
    with pytest.raises(code_archive.CodeError, match=r"at most 48 KiB; the largest files: weights"):
        with_packed_code({"code": folder})
