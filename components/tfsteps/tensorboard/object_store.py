"""Objects in buckets, such as event files: boto3 for `s3://`, fsspec with gcsfs for `gs://`, as in TensorBoard's image.

The clients find their credentials as they always do: variables, files, the service account of a pod.
"""

import functools
import io
import logging
import os
from collections.abc import Callable, Iterator
from typing import IO, Any, ParamSpec, TypeVar

from tfsteps.spec import is_uri
from tfsteps.tensorboard.event_files import FilePath

_BUFFER = 1 << 20  # bytes of one request
_CONNECT_SECONDS, _READ_SECONDS, _TRIES = 10, 30, 3

P = ParamSpec("P")
T = TypeVar("T")


def set_endpoints() -> None:
    """Set what the clients of object stores need beside TensorFlow's variables.

    S3_ENDPOINT may lack its scheme. With an emulator, gcsfs would ask for the bucket's type by gRPC for a minute.
    """
    endpoint = os.environ.get("S3_ENDPOINT", "")
    if endpoint and not is_uri(endpoint):
        scheme = "http" if os.environ.get("S3_USE_HTTPS", "1") in ("0", "false") else "https"
        os.environ["S3_ENDPOINT"] = f"{scheme}://{endpoint}"
    if "STORAGE_EMULATOR_HOST" in os.environ:
        os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")


def _as_os_error(call: Callable[P, T]) -> Callable[P, T]:
    """Turn whatever a client raises into an OSError with one line."""

    @functools.wraps(call)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except ImportError as error:
            raise OSError(f"{error}; install it with `pip install 'tfsteps[tensorboard]'`") from error
        except Exception as error:  # each client has its own errors
            raise OSError(" ".join(f"{type(error).__name__}: {error}".split())) from error

    return called


@_as_os_error
def sizes_below(uri: str) -> dict[str, int]:
    """Return the size of each event file below a URI, by its URI. OSError if they cannot be listed."""
    set_endpoints()
    folder = f"{uri.rstrip('/')}/"
    if folder.startswith("s3://"):
        bucket, prefix = _bucket_and_key(folder)
        pages = _s3().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        listed = {f"s3://{bucket}/{item['Key']}": item["Size"] for page in pages for item in page.get("Contents", [])}
    else:
        files, path = _fsspec(folder)
        scheme = folder.partition("://")[0]
        items = files.find(path, detail=True).values()
        listed = {f"{scheme}://{files._strip_protocol(item['name'])}": item["size"] for item in items}  # noqa: SLF001
    return {uri: int(size) for uri, size in listed.items() if "tfevents" in uri.rpartition("/")[2]}


def files_below(uri: str) -> Iterator[FilePath]:
    """Yield the event files below a URI, in any order. OSError if they cannot be listed."""
    folder = f"{uri.rstrip('/')}/"
    for path in sizes_below(uri):
        run, _, name = path.removeprefix(folder).rpartition("/")
        yield FilePath(path, run or ".", name)


@_as_os_error
def open_object(uri: str) -> tuple[IO[bytes], int]:
    """Return an object as a file, and its size in bytes."""
    if uri.startswith("s3://"):
        client, (bucket, key) = _s3(), _bucket_and_key(uri)
        size = int(client.head_object(Bucket=bucket, Key=key)["ContentLength"])

        def fetch(start: int, end: int) -> bytes:
            byte_range = f"bytes={start}-{end - 1}"
            return bytes(client.get_object(Bucket=bucket, Key=key, Range=byte_range)["Body"].read())

    else:
        files, path = _fsspec(uri)
        size = int(files.size(path))

        def fetch(start: int, end: int) -> bytes:
            return bytes(files.cat_file(path, start=start, end=end))

    return io.BufferedReader(_BucketObject(fetch, size), _BUFFER), size


@_as_os_error
def put_object(uri: str, content: bytes) -> None:
    """Write an object, whole or not at all."""
    set_endpoints()
    if uri.startswith("s3://"):
        bucket, key = _bucket_and_key(uri)
        _s3().put_object(Bucket=bucket, Key=key, Body=content)
    else:
        files, path = _fsspec(uri)
        files.pipe_file(path, content)


class _BucketObject(io.RawIOBase):
    """An object of a bucket, read in ranges."""

    def __init__(self, fetch: Callable[[int, int], bytes], size: int) -> None:
        """Begin at its start; `fetch` returns the bytes from the first number to before the second one."""
        self._fetch, self._size = fetch, size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    @_as_os_error
    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        data = self._fetch(self._at, end) if end > self._at else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def _bucket_and_key(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.partition("://")[2].partition("/")
    return bucket, key


def _s3() -> Any:
    import boto3  # noqa: PLC0415  slow
    from botocore.config import Config  # noqa: PLC0415

    limits = Config(connect_timeout=_CONNECT_SECONDS, read_timeout=_READ_SECONDS, retries={"max_attempts": _TRIES})
    return boto3.client("s3", endpoint_url=os.environ.get("S3_ENDPOINT"), config=limits)


def _fsspec(uri: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs  # noqa: PLC0415  slow

    logging.getLogger("gcsfs").addHandler(logging.NullHandler())  # it logs a traceback of what it then raises
    files, path = url_to_fs(uri, use_listings_cache=False)
    return files, path
