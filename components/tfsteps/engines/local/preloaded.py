"""The fork server of `step` imports this module, which imports and uses all modules of a launcher.

The import starts a new session.
"""

import contextlib
import importlib
import os
import pathlib
import sys
import tempfile

import msgspec

from tfsteps import report, spec, typed_json
from tfsteps.engines.kfp import ARGUMENT
from tfsteps.engines.local.step import LAUNCHERS
from tfsteps.report.curves import Charts
from tfsteps.runs import identity
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.runs.usage import Sample
from tfsteps.spec.parse import to_plain
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.tensorboard import event_records
from tfsteps.text import tracebacks

_OTHERS = (
    "multiprocessing.popen_forkserver",
    "tfsteps.launcher.background",
    "tfsteps.systems.local.job_system",
    "tfsteps.launcher.event_summary",
)

with contextlib.suppress(PermissionError):
    os.setsid()  # Ctrl-C and a closed terminal are for the pipeline, which ends its steps
sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
for name in (*LAUNCHERS, *_OTHERS):
    importlib.import_module(name)

# Plugins are loaded, types are resolved, and patterns are compiled, when they are first used: so all are used, for a
# job that never runs. A launcher reports a plugin that is broken.
with contextlib.suppress(LaunchError):
    registry.plugins()
_inputs = {"inputs": {"parameterValues": {"task_config": {}}}, "outputs": {"outputFile": "/warm-up/output.json"}}
with contextlib.suppress(LaunchError, ValueError):
    sys.modules["tfsteps.engines.registry"].step_task(  # launchers import it, an engine must not
        [ARGUMENT, msgspec.json.encode(_inputs).decode()]
    ).pod_settings()
_plain = {"name": "warm", "command": ["true"], "roles": {"worker": {}}, "systems": {"local": {}}}
_job = spec.from_plain(_plain, "warm-up", registry.options())
to_plain(_job)
_status = Status(identity=identity.Identity(run="r", task="t"), job="warm", system="local")
typed_json.decode(msgspec.json.encode(_status), Status)
typed_json.build(Charts)
tracebacks.raised(["the last line"])
event_records.masked_crc_of_length(bytes(8))
with contextlib.suppress(OSError), tempfile.TemporaryDirectory() as _folder:  # a full disk, perhaps
    _attempt = AttemptFolder(pathlib.Path(_folder))
    _attempt.folder.joinpath("job.json").write_bytes(msgspec.json.encode(_job))
    _attempt.folder.joinpath("usage.jsonl").write_bytes(msgspec.json.encode(Sample(at=1, window=1, replica="worker-0")))
    report.write(_attempt, _status)
