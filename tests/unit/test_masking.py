"""What people see holds no secret: of options, variables, scripts and URLs, and of what was sent."""

import json

import pytest

from tests.unit.cli.statuses import saved
from tests.wire.scripted import Answer, serve
from tfsteps import masking, report
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource
from tfsteps.platforms.hai.client import Client
from tfsteps.runs.events import State

SECRET = "hunter2hunter2"
WORDS = [
    [f"--password={SECRET}"],
    [f"--password={SECRET}&rest"],
    ["--api-key", SECRET],
    ["--hub_token", SECRET],
    [f"PASSWORD={SECRET}"],
    [f"hubToken={SECRET}"],
    ["sh", "-c", f"export API_TOKEN={SECRET}; python train.py"],
    ["sh", "-c", f"python train.py --token {SECRET} --epochs 3"],
    ["sh", "-c", f"run --secret '{SECRET} {SECRET}'"],
    ["sh", "-c", f'PASSWORD="{SECRET} {SECRET}'],
    ["sh", "-c", f"curl -H 'Authorization: Bearer {SECRET}' https://host"],
    ["sh", "-c", f"curl -H 'Authorization: Basic {SECRET}' https://host"],
    ["--data", f"https://user:{SECRET}@host/data"],
    ["--data", f"https://{SECRET}@github.com/a/b.git"],
    ["--data", f"https://host/data?access_key={SECRET}&part=1"],
    ["--config", json.dumps({"password": SECRET})],
    ["--config", f'{{"password": "a\\"{SECRET}"}}'],
    ["--config", f"{{api_key: {SECRET}}}"],
]
KEPT = [
    ["--max-tokens", "512"],
    ["--max-tokens=512"],
    ["--tokenizer=bert", "--token-count", "3"],
    ["--password", "--verbose"],
    ["python", "-m", "train", "--data", "https://host/a@b?c=d"],
    ["--mail", "a@b.org"],
    ["--learning-rate", "0.1", "a=b"],
]
JOBS = [
    {"env": {"HUB_TOKEN": SECRET}},
    {"env": {"hub_password": SECRET}},
    {"env": {"DATA": f"s3://id:{SECRET}@bucket"}},
    {"roles": {"worker": {"env": {"API_KEY": SECRET}}}},
    {"pod": {"spec": {"containers": [{"env": [{"name": "API_TOKEN", "value": SECRET}]}]}}},
    {"systems": {"hai": {"token": SECRET}}},
]


@pytest.mark.parametrize("words", WORDS, ids=str)
def test_a_secret_in_a_command_is_hidden(words):
    shown = masking.masked_words(words)
    assert SECRET not in str(shown)
    assert masking.MASK in str(shown)
    assert len(shown) == len(words)


@pytest.mark.parametrize("words", KEPT, ids=str)
def test_what_is_no_secret_is_shown(words):
    assert masking.masked_words(words) == words


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_a_secret_in_a_job_is_hidden(job):
    assert SECRET not in str(masking.masked_job(job))


def test_names_of_secrets_and_other_values_are_shown():
    job = {"env": {"A": {"secret": "hub", "key": "api-key"}, "N": 3}, "volumes": [{"secret": "s", "mount": "/s"}]}
    assert masking.masked_job(job) == job


JOB = {
    "name": "a",
    "roles": {"worker": {}},
    "env": {"HUB_TOKEN": SECRET},
    "command": [word for words in WORDS for word in words],
}


@pytest.mark.parametrize("text", [json.dumps(JOB), json.dumps({**JOB, "of_a_later_version": 1}), json.dumps(JOB) + "}"])
def test_a_report_shows_no_secret(text):
    attempt = saved(state=State.SUCCEEDED)
    (attempt.folder / "job.json").write_text(text)
    report.write(attempt)
    page = attempt.report.read_text()
    assert "HUB_TOKEN" in page or "job.json is damaged" in page
    assert SECRET not in page


# --- credentials that are sent

TOKEN = "s3cretpw/token+of=this-test"
PODS = Resource("v1", "pods", "Pod")
ECHOES = {
    "another object": lambda text: Answer(200, {"token": text, "kind": "PodList"}),
    "a page": lambda text: Answer(200, f"<html>{text}</html>".encode(), {"Content-Type": "text/html"}),
    "cut": lambda text: Answer(200, ("x" * 110 + text).encode()),
    "a refusal": lambda text: Answer(403, {"kind": "Status", "message": f"token {text} is not allowed"}),
    "a refusal of a proxy": lambda text: Answer(403, ("x" * 110 + text).encode()),
    "a redirect": lambda text: Answer(302, text.encode()),
    "an error": lambda text: Answer(500, text.encode()),
    "a message of HAI": lambda text: Answer(200, {"success": 0, "msg": "x" * 290 + text}),
    "a refusal of HAI": lambda text: Answer(401, {"success": 0, "msg": f"no user has {text}"}),
}


@pytest.mark.parametrize("system", ["kubernetes", "hai"])
@pytest.mark.parametrize("echo", ECHOES)
def test_no_message_holds_the_token_that_a_server_quotes(system, echo):
    with serve(lambda _asked: ECHOES[echo](TOKEN)) as server:
        client = (Api if system == "kubernetes" else Client)(server.access(TOKEN), patience=0, read_seconds=5)
        with pytest.raises(ApiError) as caught:
            client.list(PODS, "ns") if system == "kubernetes" else client.stop("c")
    assert TOKEN[:8] not in str(caught.value)
