"""The tree of a run that is followed, without a terminal: what it draws and when it reads."""

import os
import threading

from tests.support.waiting import until
from tests.unit.cli.statuses import saved, status
from tfsteps.backends.find import Selection
from tfsteps.backends.local.backend import LocalBackend
from tfsteps.cli.commands.show import LiveGraph
from tfsteps.runs.events import State


def drawn(tree, height=20):
    return [str(line) for line in tree.drawn(80, height)]


def test_it_follows_what_is_reported_and_reads_the_rest_itself():
    _, lock = saved(hold=True, launcher=os.getpid())
    backend = LocalBackend()
    selection = Selection("r1")
    with lock, LiveGraph(backend, backend.find("r1"), selection) as tree:
        assert drawn(tree)[0].startswith("└─ task mnist, attempt 0: running, ")
        until(lambda: any(f"launcher pid {os.getpid()}: running" in line for line in drawn(tree)))
        tree.changed(status(state=State.SUCCEEDED))
        assert drawn(tree)[0] == "└─ task mnist, attempt 0: succeeded, 1m01s"
        assert drawn(tree, height=1) == [], "the tables are more important"


def test_nothing_is_read_unless_it_is_drawn():
    saved(state=State.SUCCEEDED)
    before = threading.active_count()
    with LiveGraph(LocalBackend(), LocalBackend().find("r1"), Selection("r1")) as tree:
        tree.changed(status())
        assert threading.active_count() == before
