"""A launcher as a step of a Workflow: `launcher.py POD_FILES JOB SYSTEM NAMESPACE RUN`; POD_NAME names the step's pod.

It is a process of this machine, so that it can be killed; all that it reads of its pod and its Workflow is real.
"""

import pathlib
import sys

from tests.conformance.launcher import launched
from tfsteps.engines.registry import find_pipeline
from tfsteps.kube import access
from tfsteps.runs.identity import Identity
from tfsteps.systems import registry
from tfsteps.text import streams


def main(pod_files: str, file: str, system: str, namespace: str, run: str) -> int:
    access.SERVICE_ACCOUNT = pathlib.Path(pod_files)
    identity = Identity(run=run, task="train")
    return launched(file, identity, lambda: registry.get(system, find_pipeline, namespace=namespace))


if __name__ == "__main__":
    streams.flush_and_exit(main(*sys.argv[1:]))
