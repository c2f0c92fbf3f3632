"""Where a launcher finds HAI Platform's address and its user's token."""

import pytest

from tfsteps.engines.argo.task import ArgoTask
from tfsteps.engines.kfp.task_config import partial_job
from tfsteps.kube.credentials import AccessError
from tfsteps.platforms.hai import access
from tfsteps.spec.step_inputs import plain_job


@pytest.fixture(autouse=True)
def config(monkeypatch, tmp_path):
    """Return the client's own file, not there yet, in an environment without any of the variables."""
    for name in (access.SERVER, access.TOKEN, access.LAUNCHER_SERVER, access.LAUNCHER_TOKEN, access.TOKEN_FILE):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "conf.yml"
    monkeypatch.setenv("HFAI_CLIENT_CONFIG", str(file))
    return file


def address_and_token():
    return (place := access.find()).server, place.token(False)


def test_the_launchers_own_variables_come_first(monkeypatch, config, tmp_path):
    config.write_text("url: http://file\ntoken: of-file\n")
    assert address_and_token() == ("http://file", "of-file")
    monkeypatch.setenv("MARSV2_SERVER", "http://client/")
    monkeypatch.setenv("MARSV2_USER_TOKEN", "of-client")
    assert address_and_token() == ("http://client", "of-client")
    monkeypatch.setenv("TFSTEPS_HAI_SERVER", "https://launcher/hai")
    monkeypatch.setenv("TFSTEPS_HAI_TOKEN", "of-launcher")
    assert address_and_token() == ("https://launcher/hai", "of-launcher")
    token = tmp_path / "token"
    token.write_text("of-secret\n")
    monkeypatch.setenv("TFSTEPS_HAI_TOKEN_FILE", str(token))
    assert address_and_token() == ("https://launcher/hai", "of-secret")


@pytest.mark.parametrize("address", ["hai", "hai:80", "hai.example/x", "ftp://hai", "http:///x", "http://a b"])
def test_an_address_without_scheme_or_host(monkeypatch, address):
    monkeypatch.setenv("TFSTEPS_HAI_SERVER", address)
    monkeypatch.setenv("TFSTEPS_HAI_TOKEN", "secret-token")
    with pytest.raises(AccessError, match="is no address of HAI: write http://host or https://host") as error:
        access.find()
    assert "secret-token" not in str(error.value)


def test_variables_of_an_argo_template_do_not_reach_the_replicas():
    variables = {"TFSTEPS_HAI_TOKEN": "secret-token", "MARSV2_USER_TOKEN": "secret-token"}
    inputs = ["name=mnist", "system=hai", "workers=1", 'env={"EPOCHS": "3"}']
    parameters = ArgoTask.from_arguments(["--argo", "train", *inputs], variables).parameters
    assert plain_job(parameters, partial_job(parameters.get("task_config")))["env"] == {"EPOCHS": "3"}
