"""A server of Google Cloud Storage on this machine."""

import contextlib

from gcp_storage_emulator.server import create_server

from tfsteps.tensorboard.process import _free_port


@contextlib.contextmanager
def served_bucket(name):
    """Yield the address of a server with one empty bucket."""
    port = int(_free_port(""))
    with create_server("127.0.0.1", port, in_memory=True, default_bucket=name):
        yield f"http://127.0.0.1:{port}"
