"""`tfsteps logs --follow` of a container on a cluster: what is printed first, and what follows it."""

import pytest

from tests.unit.cli.command import output_lines
from tests.unit.cli.jobs_on_cluster import at, kubeconfig, pod_of, tfjob
from tests.wire.scripted import Answer, refusal
from tests.wire.test_job import events

K = ("--on", "kubernetes")
BUSY = tfjob("busy", ("Running", "True", 3), created=40)
ENDED = tfjob("busy", ("Succeeded", "True", 80), created=40)
POD = pod_of(BUSY, "worker-0", "Running", started=42)
SHORT = [(50 + i, "F", f"line {i}") for i in range(30)]
LONG = [(80, "P", part * 40) for part in "pqr"]  # parts of a line, which the node counts as lines


def kubelet(entries, asked):
    """Answer with parts (P) and ends (F) of lines: a time stands before the first part, as of the answer too."""
    since, tail = asked.query.get("sinceTime", ""), asked.query.get("tailLines")
    chosen = entries[max(len(entries) - int(tail), 0) :] if tail is not None else entries
    text, new = "", True
    for second, tag, part in chosen:
        if at(second) >= since:
            text += (f"{at(second)} " if new else "") + part + ("\n" if tag == "F" else "")
            new = tag == "F"
    return Answer(body=text.encode())


def followed(monkeypatch, tmp_path, before, after, *options, gone=False):
    """Return what is printed of a log that is `before` when it is read first; its pod may be `gone` then."""
    with kubeconfig(monkeypatch, tmp_path, BUSY, POD) as (server, there):

        def answer(asked):
            if asked.query.get("watch") and asked.path.startswith("/apis/kubeflow.org/v1/"):
                return events(0.5, ("MODIFIED", ENDED))
            if not asked.path.endswith("/log"):
                return there.answer(asked)
            if asked.query.get("previous") == "true":
                return refusal(400, "BadRequest", "previous terminated container not found")
            if gone:
                there.pods.clear()
                there.jobs[:] = [ENDED]
            return kubelet(after if "follow" in asked.query else before, asked)

        server.script = answer
        return output_lines("logs", "busy", "worker-0", *options, "--follow", *K)


@pytest.mark.parametrize("tail", [0, 1])
@pytest.mark.parametrize("last", [[], [(81, "F", "end")]], ids=["it goes on", "it ended"])
def test_a_long_last_line_does_not_bring_the_whole_log(tail, last, monkeypatch, tmp_path):
    before, after = [*SHORT, *LONG, *last], [*SHORT, *LONG, (81, "F", "end"), (85, "F", "new")]
    lines = followed(monkeypatch, tmp_path, before, after, "--tail", str(tail))
    whole = [f"{'p' * 40}{'q' * 40}{'r' * 40}end"] if tail or not last else []
    assert [line.partition("] ")[2] for line in lines] == [*(["line 29"] if tail and not last else []), *whole, "new"]


def test_an_unfinished_line_is_printed_though_its_pod_goes(monkeypatch, tmp_path):
    log = [*SHORT, (80, "P", "the last words")]
    lines = followed(monkeypatch, tmp_path, log, log, "--tail", "2", gone=True)
    assert [line.partition("] ")[2] for line in lines] == ["line 28", "line 29", "the last words"]
