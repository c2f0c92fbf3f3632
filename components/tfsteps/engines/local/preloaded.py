"""The fork server of `step` imports this module, which imports and uses all modules of a launcher.

The import starts a new session.
"""

import contextlib
import importlib
import os
import sys

import msgspec

from tfsteps import spec
from tfsteps.engines.local.step import LAUNCHERS
from tfsteps.runs import identity
from tfsteps.runs.status import Status
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError

_OTHERS = (
    "multiprocessing.popen_forkserver",
    "tfsteps.launcher.background",
    "tfsteps.systems.local.job_system",
    "tfsteps.launcher.event_summary",
    "tfsteps.report",
)

with contextlib.suppress(PermissionError):
    os.setsid()  # Ctrl-C and a closed terminal are for the pipeline, which ends its steps
sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
for name in (*LAUNCHERS, *_OTHERS):
    importlib.import_module(name)

# Plugins are loaded, and types are resolved, when they are first used. A launcher reports a plugin that is broken.
with contextlib.suppress(LaunchError):
    registry.plugins()
with contextlib.suppress(LaunchError, ValueError):
    sys.modules["tfsteps.engines.registry"].step_task([])  # launchers import it, an engine must not
spec.from_plain({"name": "warm", "command": ["true"], "roles": {"worker": {}}}, "warm-up", registry.options())
_status = Status(identity=identity.Identity(run="r", task="t"), job="warm", system="local")
msgspec.json.decode(msgspec.json.encode(_status), type=Status)
