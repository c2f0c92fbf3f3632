"""The notebook of the documentation, executed by a kernel: it trains on this machine."""

import ast

import pytest

from tests.support.notebook import NOTEBOOK, executed, read


def test_it_is_stored_without_outputs():
    cells = [cell for cell in read(NOTEBOOK).cells if cell.cell_type == "code"]
    assert cells
    assert not [cell.id for cell in cells if cell.outputs or cell.execution_count]


@pytest.mark.tensorflow
def test_it_trains_in_two_workers_shows_status_and_compares(monkeypatch, tmp_path):
    cells, live = executed(monkeypatch, tmp_path)
    assert any("running" in page and "worker-1" in page for page in live["slow"]), "the status while it runs"
    assert "succeeded" in live["slow"][-1]
    assert "<svg" in live["slow"][-1], "curves"
    result = ast.literal_eval(cells["fast"]["text/plain"])
    assert result["replicas"] == 2
    assert result["weight"] == pytest.approx(3, abs=1)
    comparison = cells["compare"]["text/html"]
    assert "metric loss" in comparison
    assert "input args --rate" in comparison
    lines = cells["logs"]["text/html"]
    assert [f"epoch {epoch}: loss" in lines for epoch in range(4)] == [False, False, True, True]
    assert cells["runs"]["text/html"].count("<td>succeeded</td>") == 2
