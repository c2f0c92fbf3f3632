"""What every unit test gets: no cluster. The full check runs this suite with the KUBECONFIG of its own cluster."""

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no finding about a strategy.
settings.register_profile("tfsteps", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tfsteps")


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    monkeypatch.delenv("KUBECONFIG", raising=False)
