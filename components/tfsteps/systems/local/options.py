"""The options of a job file below `systems: {local: ...}`."""

from typing import Literal

import msgspec

from tfsteps.spec import Duration


class LocalOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of local runs.

    Attributes:
        grace: Seconds between SIGTERM and SIGKILL. TensorFlow swallows SIGTERM under MultiWorkerMirroredStrategy.
        finish: Seconds that evaluators and mirrored workers get to end by themselves once the decisive replica has
            succeeded; parameter servers never do, and are ended at once.
        started: When a replica is no longer pending: `port` = it listens on its port of TF_CONFIG, so that
            `deadlines.pending` ends a job in which a peer never joins; `spawn` = its process runs. Empty = `port` where
            the job names a `strategy` whose replicas wait for each other, parameter_server or multi_worker_mirrored.
    """

    grace: Duration = 10.0
    finish: Duration = 30.0
    started: Literal["port", "spawn"] | None = None


OPTIONS = LocalOptions
