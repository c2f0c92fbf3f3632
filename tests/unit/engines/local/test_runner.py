"""How a pipeline on this machine ends when no step explains it."""

import pytest

from tfsteps.engines.local import runner


def test_an_end_that_no_step_explains_is_an_error_of_the_pipeline(tmp_path, monkeypatch):
    def pipeline():
        raise RuntimeError("Pipeline 'a' finished with status FAILURE")

    monkeypatch.setattr(runner, "check", lambda *_: None)
    with pytest.raises(runner.PipelineError, match="no step failed: Pipeline 'a' finished") as caught:
        runner.run(pipeline, {}, pipeline_root=tmp_path, run_id="r1")
    assert caught.value.exit_code == 10
