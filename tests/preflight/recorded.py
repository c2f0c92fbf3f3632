"""Runs one of our programs as if in a pod, and writes every verb that it uses and the answer's status to a file.

Arguments: the program's module, folder of the ServiceAccount's files, file to write to, then the program's own.
"""

import importlib
import pathlib
import re
import sys

from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError

_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)(?:/namespaces/[^/]+)?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?$"
)
_VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}


def permission(method, path, query):
    """Return what an API server calls a request: verb, group, resource with its subresource; None for discovery.

    Which APIs there are, everybody may ask.
    """
    match = _PATH.match(path)
    if match is None:
        return None
    verb = _VERBS.get(method) or ("get" if match["name"] else "watch" if "watch" in query else "list")
    return verb, match["group"] or "", "/".join(filter(None, [match["plural"], match["sub"]]))


def main(program, account, record, *arguments):
    """Run the program and return its exit code."""
    access.SERVICE_ACCOUNT = pathlib.Path(account)
    send, begin, refused = Api.open, Api.begin, Api.refused
    with pathlib.Path(record).open("a", buffering=1) as file:

        def recorded(self, method, path, query=None, *args, **options):
            status = 200
            try:
                return send(self, method, path, query, *args, **options)
            except ApiError as error:
                status = error.status
                raise
            finally:
                write(status, method, path, query)

        def write(status, method, path, query=None):
            if used := permission(method, path, query or {}):
                file.write("\t".join([str(status), *used]) + "\n")

        def begun(self, path, query, **options):
            write(200, "GET", path, query)
            return begin(self, path, query, **options)

        def refuse(self, request, status, *answer):
            if request.endswith("/log"):  # `recorded` gets the others
                write(status, *request.split())
            return refused(self, request, status, *answer)

        Api.open, Api.begin, Api.refused = recorded, begun, refuse
        return importlib.import_module(program).main(arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
