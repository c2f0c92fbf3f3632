"""The counts of errors in public pipelines: by rule, with those that are not known as true."""

import pytest

from benchmarks import public_pipelines

FINE = "apiVersion: argoproj.io/v1alpha1\nkind: WorkflowTemplate\nmetadata: {name: a}\nspec: {templates: []}\n"


@pytest.mark.parametrize(
    ("text", "code", "counted"),
    [
        (FINE, 0, "1 pipelines, 0 with errors, 0 errors not known as true; 1 other manifests"),
        (FINE.replace("{name: a}", "{}"), 0, "1 pipelines, 1 with errors, 0 errors not known as true; 1 other"),
        (FINE.replace("templates", "templatse"), 1, "1 pipelines, 1 with errors, 1 errors not known as true; 1 other"),
        ("a: [", 1, "1 pipelines, 1 with errors, 1 errors not known as true; 1 other"),
    ],
)
def test_counts(text, code, counted, tmp_path, capsys):
    (tmp_path / "flow.yaml").write_text(text)
    (tmp_path / "config.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    assert public_pipelines.main([str(tmp_path)]) == code
    assert capsys.readouterr().out.startswith(f"{tmp_path}: {counted}")


def test_a_folder_without_pipelines_is_no_success(tmp_path):
    assert public_pipelines.main([str(tmp_path)]) == 1
