import json
import pathlib
import re

import msgspec
import pytest

from tfsteps.launcher.notify.notification import FailedTask, Failure, Notification, body, escaped, of_run


def notification(**fields):
    values = {"id": "i", "event": "failed", "scope": "job", "at": "t", "run": "r1", "name": "mnist", "state": "failed"}
    return Notification(**{**values, **fields})


def failure(summary):
    return Failure(summary=summary, replica="worker-0", exit_code=1, meaning="", fault="platform")


def slack(sent):
    message = json.loads(body(sent, "slack"))
    section, context = message["blocks"]
    return message["text"], section["text"]["text"], context["elements"][0]["text"]


def test_no_text_of_a_job_can_mention_a_channel_or_hide_a_link():
    text, section, context = slack(
        notification(name="<!channel>", failure=failure("<https://evil|click> & run"), run="`<!here>`")
    )
    assert "<" not in text + section + context
    assert "&lt;!channel&gt; failed: &lt;https://evil|click&gt; &amp; run" in text
    assert "run `'&lt;!here&gt;'`" in context


@pytest.mark.parametrize("text", ["&" * 100_000, "x" * 100_000, "word\n" * 30_000])
def test_slacks_limits_are_kept_and_no_entity_is_cut(text):
    tasks = [FailedTask(name=text, message=text) for _ in range(100)]
    metrics = {f"{'m' * 60}{i}": 1 / 3 for i in range(100)}
    every = notification(
        name=text, failure=failure(text), tasks=tasks, metrics=metrics, tensorboard_url=f"https://host/{text}"
    )
    text_, section, context = slack(every)
    assert len(text_) < 4000
    assert len(section) <= 3000
    assert len(context) <= 3000
    assert all(part.replace("&amp;", "").count("&") == 0 for part in (text_, section, context))


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("succeeded", "mnist succeeded after 1m"),
        ("deadline", "mnist passed a deadline after 1m"),
        ("paused", "mnist was paused"),
        ("restarting", "mnist is restarting"),
        ("cancelled", "mnist was cancelled after 1m"),
    ],
)
def test_the_sentence_of_an_event(event, words):
    ended = None if event in ("paused", "restarting") else "t"
    text, _, _ = slack(notification(event=event, total_seconds=60.2, ended=ended))
    assert text == words


def test_the_end_of_a_run_lists_its_failed_steps():
    tasks = [FailedTask(name=f"step-{i}", message="Error (exit code 10)") for i in range(12)]
    sent = of_run("r1", "nightly", "failed", state="Failed", tasks=tasks, at=0.0)
    text, section, context = slack(sent)
    assert text == "nightly failed"
    assert "• step-0: Error (exit code 10)" in section
    assert "and 2 more" in section
    assert "run `r1`" in context


def test_escaped_text_fits():
    assert escaped("a<b", 20) == "a&lt;b"
    assert escaped("a<b", 4) == "a…"


def test_the_guide_describes_every_field():
    page = (pathlib.Path(__file__).parents[4] / "docs/guides/notifications.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]*) \|", page[page.index("## The JSON format") :], re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(rows)) == list(Notification.__struct_fields__)
    example = json.loads(re.search(r"```json\n(.*?)```", page, re.DOTALL)[1])
    assert list(example) == list(Notification.__struct_fields__)
    assert msgspec.convert(example, Notification)
