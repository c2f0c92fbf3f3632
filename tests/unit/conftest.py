"""What every unit test gets: no cluster. The full check runs this suite with the KUBECONFIG of its own cluster."""

import pytest


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    monkeypatch.delenv("KUBECONFIG", raising=False)
