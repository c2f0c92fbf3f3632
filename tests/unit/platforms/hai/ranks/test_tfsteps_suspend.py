"""The numbers that a training program on HAI wants to be remembered."""

import pytest

from tfsteps.platforms.hai.ranks.tfsteps_suspend import remember, remembered


@pytest.fixture(autouse=True)
def rank(monkeypatch, tmp_path):
    monkeypatch.setenv("TFSTEPS_REMEMBER_FILE", str(tmp_path / "remembered"))
    monkeypatch.setenv("MARSV2_WHOLE_LIFE_STATE", "4")
    return tmp_path


def test_the_number_of_an_earlier_run_until_there_is_one_of_this_run(rank):
    assert remembered() == 4
    remember(7)
    assert remembered() == 7, "also in a program that was started again in place"
    assert [file.name for file in rank.iterdir()] == ["remembered"]


def test_without_an_earlier_run(monkeypatch):
    monkeypatch.delenv("MARSV2_WHOLE_LIFE_STATE")
    assert remembered() == 0


@pytest.mark.parametrize(("number", "error"), [(2**31, ValueError), (-(2**31), ValueError), (1.5, TypeError)])
def test_what_the_platform_cannot_keep(number, error):
    with pytest.raises(error):
        remember(number)
    assert remembered() == 4
