"""The page of `tfsteps tune` shows the use of each run beside what is requested and recommended."""

import re

import pytest

from tfsteps.report.tuning_page import page
from tfsteps.tuning.recommendation import Advice, Amount, Rule, TaskTuning


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (Amount(4.0, 4.0), ["request = limit 4", "recommended 2"]),
        (Amount(3.0, 4.0), ["limit 4", "recommended 2", "request 3"]),
        (Amount(None, 4.0), ["limit 4", "recommended 2"]),
        (Amount(), ["recommended 2"]),
    ],
)
def test_the_use_of_each_run_is_beside_the_request(now, words):
    advice = Advice(
        role="worker", resource="cpu", path=(), now=now, used={"r2": 1.4, "r1": 1.2}, most=1.4, new=Amount(2.0, 2.0)
    )
    tuning = TaskTuning(pipeline="p", task="t", rule=Rule(), runs=[], advices=[advice])
    html = str(page("p", [tuning]))
    assert re.findall(r'"middle">([^<]*)<', html) == words
    assert html.index(">r2<") < html.index(">r1<")
