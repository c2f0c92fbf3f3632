"""Recommendations in the text of a job file: amounts change, and nothing else."""

import pytest

from tests.unit.tuning.test_recommendation import run
from tfsteps import spec
from tfsteps.tuning.job_file import EditError, tuned_text
from tfsteps.tuning.recommendation import Rule, tune

HEAD = "# about\nname: a  # b\nimage: a:1\ncommand: [python]\n"
CASES = [
    ("resources: {cpu: 4, memory: 8Gi}  # c\nroles: {worker: {replicas: 2}}\n",
     "resources: {cpu: 1400m, memory: 1536Mi}  # c\nroles: {worker: {replicas: 2}}\n"),
    ("resources:\n  # why\n  cpu: '2~4'  # x\n  gpu: 1\n  memory: \"8Gi\"\nroles: {worker: {}}\n",
     "resources:\n  # why\n  cpu: '700m~1400m'  # x\n  gpu: 1\n  memory: \"1536Mi\"\nroles: {worker: {}}\n"),
    ("roles:\n  worker:\n    resources:\n      limits: {cpu: 4}\n      cpu: 2\n",
     "roles:\n  worker:\n    resources:\n      memory: 1536Mi\n      limits: {cpu: 1400m}\n      cpu: 700m\n"),
    ("resources: {gpu: 2(T4), limits: {memory: 8Gi}}\nroles: {worker: {}}\n",
     "resources: {cpu: 1400m, gpu: 2(T4), limits: {memory: 1536Mi}}\nroles: {worker: {}}\n"),
    ("resources: {}\nroles: {worker: {}}\n", "resources: {cpu: 1400m, memory: 1536Mi}\nroles: {worker: {}}\n"),
    ("\n# roles\nroles: {worker: {}}\n", "\n# roles\nresources: {cpu: 1400m, memory: 1536Mi}\nroles: {worker: {}}\n"),
    ("roles: {worker: {resources: &r {cpu: 4, memory: 8Gi}}, ps: {resources: *r}, chief: {resources: *r}}\n",
     "roles: {worker: {resources: &r {cpu: 1400m, memory: 1536Mi}}, ps: {resources: *r}, chief: {resources: *r}}\n"),
    ('env: {A: "\U0001f600 ä"}\nresources: {cpu: 1400m, memory: 8Gi}\r\nroles: {worker: {}}\r\n',
     'env: {A: "\U0001f600 ä"}\nresources: {cpu: 1400m, memory: 1536Mi}\r\nroles: {worker: {}}\r\n'),
]  # fmt: skip


def edited(text):
    job = spec.parse(text)
    runs = []
    for number in range(10):
        attempt = run(number, of=job)
        summary = attempt.status.usage["worker"]
        attempt.status.usage = dict.fromkeys(job.resolved_roles(), summary)
        replicas = [
            type(replica)(role=role, index=replica.index, state=replica.state, incarnations=replica.incarnations)
            for role in job.resolved_roles()
            for replica in attempt.status.replicas
        ]
        attempt.status.replicas = replicas
        runs.append(attempt)
    tuning = tune(job, runs, Rule(), pipeline="", task="a", ignored=())
    return tuned_text(text, "job.yaml", tuning.advices)


@pytest.mark.parametrize(("before", "after"), CASES)
def test_only_the_amounts_change(before, after):
    assert edited(HEAD + before) == HEAD + after
    assert edited(HEAD + after) == HEAD + after, "a second time there is nothing to change"


def test_json():
    text = '{"name": "a", "image": "a:1", "command": ["x"], "resources": {"cpu": "4"}, "roles": {"worker": {}}}'
    assert edited(text) == text.replace('"4"', '"1400m"').replace(
        '"resources": {', '"resources": {"memory": "1536Mi", '
    )


def test_a_text_that_cannot_be_changed_is_refused_with_what_to_write():
    text = f"{HEAD}roles:\n  worker:\n    <<: {{resources: {{cpu: 4, memory: 8Gi, gpu: 1}}}}\n"
    with pytest.raises(EditError) as caught:
        edited(text)
    message = "write by hand: roles.worker.resources.cpu: 1400m; roles.worker.resources.memory: 1536Mi"
    assert str(caught.value) == f"job.yaml: its text cannot be changed by a program; {message}"
