"""What the program of a rank needs of the platform."""

import pytest

from tfsteps.platforms.hai.ranks import agent

NEEDED = {"TFSTEPS_PLAN": "{}", "TFSTEPS_SECRET": "s", "MASTER_ADDR": "a", "MASTER_PORT": "1", "MARSV2_RANK": "1"}


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_variable_is_one_line_and_exit_code_2(name, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("RANK", raising=False)
    for variable, value in NEEDED.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv(name)
    folder = tmp_path / "rank"
    folder.mkdir()
    assert agent.main(str(folder), lambda _: None, lambda *_: ([], {})) == 2
    text = f"tfsteps: this rank cannot start, because the platform has not set {name}\n"
    assert capsys.readouterr() == ("", text)
    assert not folder.exists()
