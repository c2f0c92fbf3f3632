"""Packed code in a bucket or on an HTTP server: uploaded where it is packed, under the name of its hash.

Replicas fetch it before their program, so neither a pipeline nor a ConfigMap has to carry it. A local run fetches what
another machine packed.
"""

import time
from typing import Any

from tfsteps.runs import code_archive
from tfsteps.runs.code_archive import CodeError
from tfsteps.spec import CodeSource

_SECONDS = 60  # without an answer
_WHOLE_SECONDS = 900.0  # for an archive: a server may send a byte now and then


def url_of(source: CodeSource) -> str:
    """Return the URL of the packed code of a source that has a bucket; empty = it was not packed."""
    return f"{(source.bucket or '').rstrip('/')}/{source.digest}.tar.gz" if source.digest else ""


def upload(source: CodeSource) -> bool:
    """Upload the packed code of a source that has a bucket, and return True; False = this machine does not keep it.

    Then another machine has packed and uploaded it. Replicas check its hash.

    Raises:
        CodeError: It cannot be uploaded.
    """
    import http.client  # noqa: PLC0415  launchers, which start often, only need `url_of`
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    from tfsteps.tensorboard.object_store import put_object  # noqa: PLC0415

    if not source.digest or not code_archive.kept(source.digest):
        return False
    url, archive = url_of(source), code_archive.read(source.digest)
    try:
        if url.startswith("http"):
            request = urllib.request.Request(url, archive, {"Content-Type": "application/gzip"}, method="PUT")  # noqa: S310
            with urllib.request.urlopen(request, timeout=_SECONDS):  # noqa: S310  the pattern of `bucket` has the schemes
                return True
        put_object(url, archive)
    except (OSError, http.client.HTTPException) as error:
        fix = "correct code.bucket or the credentials, then launch it again"
        if isinstance(error, urllib.error.HTTPError):
            error.close()
            fix = "the server must allow PUT there without credentials"
        raise CodeError(f"the code cannot be uploaded to {url}: {error}; {fix}") from error
    return True


def fetch(source: CodeSource) -> None:
    """Keep the packed code of a source on this machine: from its bucket, unless this machine keeps it already.

    Raises:
        CodeError: It cannot be fetched, or has another hash.
        OSError: It cannot be written.
    """
    import http.client  # noqa: PLC0415  as above
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    from tfsteps.tensorboard.object_store import open_object, set_endpoints  # noqa: PLC0415

    if not source.digest or not source.bucket or code_archive.kept(source.digest):
        return
    if (url := url_of(source)).startswith("pvc://"):
        fix = "run it on the cluster, or launch it from its folder: `--set code=FOLDER`"
        raise CodeError(f"the code is on a claim, {url}, which this machine cannot read; {fix}")
    try:
        if url.startswith("http"):
            with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310  as above
                archive = _content(answer, time.monotonic() + _WHOLE_SECONDS)
        else:
            set_endpoints()
            archive = open_object(url)[0].read(code_archive.MOST_ARCHIVE_BYTES)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        fix = "correct code.bucket or the credentials, or launch it from its folder: `--set code=FOLDER`"
        raise CodeError(f"the code cannot be fetched from {url}: {error}; {fix}") from error
    try:
        code_archive.keep(source.digest, archive)
    except CodeError as error:
        raise CodeError(f"{error}; it was fetched from {url}") from error


def _content(answer: Any, deadline: float) -> bytes:
    """Return the body of an answer, no more than an archive has. OSError if it takes until the deadline."""
    content = bytearray()
    while len(content) < code_archive.MOST_ARCHIVE_BYTES and (block := answer.read1(1 << 16)):
        content += block
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {_WHOLE_SECONDS:g} s only {len(content)} bytes have arrived")
    return bytes(content)  # half of it has another hash
