"""Runs the janitor as if in a pod, and writes every verb that it uses and the answer's status to a file.

Arguments: folder of the ServiceAccount's files, file to write to, then the janitor's own.
"""

import pathlib
import sys

from tests.preflight.recorded import right
from tfsteps.cluster import access
from tfsteps.cluster.api import Api, ApiError
from tfsteps.janitor.__main__ import main

if __name__ == "__main__":
    access.SERVICE_ACCOUNT = pathlib.Path(sys.argv[1])
    send = Api.open
    with pathlib.Path(sys.argv[2]).open("a", buffering=1) as file:

        def recorded(self, method, path, query=None, *args, **options):
            status = 200
            try:
                return send(self, method, path, query, *args, **options)
            except ApiError as error:
                status = error.status
                raise
            finally:
                file.write("\t".join([str(status), *right(method, path, query or {})]) + "\n")

        Api.open = recorded
        code = main(sys.argv[3:])
    sys.exit(code)
