"""`tfsteps check --on hai`: a tiny task shows whether the platform works."""

import pytest

from tests.hai import pods
from tests.hai.environment import HaiEnvironment
from tests.unit.cli.command import tfsteps

pytestmark = [pytest.mark.skipif(not pods.may_isolate(), reason="ranks need namespaces, which root may make")]


def test_a_tiny_task(tmp_path, monkeypatch):
    with HaiEnvironment(tmp_path) as environment:
        for name, value in environment.env.items():
            monkeypatch.setenv(name, value)
        code, out, err = tfsteps("check", "--on", "hai")
        assert code == 0, out + err
        assert "hai: works (" in out
        assert environment.gone()
