"""Where the records of runs outlive this machine and the objects of a cluster: a bucket, a folder, or an MLflow server.

<address>/runs/<run>/<task>/<attempt>/   the files of the attempt that `FILES` names, as `store` has them

Buckets and folders are reached by obstore, which finds its credentials in the variables that the clients of the clouds
use; MLflow by `mlflow_records`.
"""

import concurrent.futures
import contextlib
import datetime as dt
import functools
import os
import pathlib
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from tfsteps.masking import hidden
from tfsteps.runs import mlflow_records, store
from tfsteps.runs.identity import short_hash
from tfsteps.runs.log_file import Segment, segments
from tfsteps.runs.mlflow_records import MlflowRecords, StoredFile, check_time
from tfsteps.runs.store import RECORDS, AttemptFolder, open_private
from tfsteps.spec import is_uri

FILES = ("status.json", "job.json", "report.html", "curves.json", "usage.jsonl", "event-origin.json")
"""What is stored of an attempt, the most important first, and then the end of its log."""

ADDRESSES = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, mlflow, mlflow+https://HOST, or the absolute path of a folder"
"""The forms of an address, for messages."""

NOWHERE = ("", "none")
"""Addresses that mean: records are stored nowhere."""

LOG_BYTES = 1 << 20

_INDEX = ("status.json", "job.json")  # what lists and filters need
_SCHEMES = ("s3://", "gs://", "file://", "mlflow+http://", "mlflow+https://")
_PREFIXES = ("aws_", "google_", "mlflow_")
_REQUEST_SECONDS = 5.0
_AT_ONCE = 16
_REASON_CHARACTERS = 300
_BLOCK = 1 << 20
_FILE_BYTES = 64 << 20
_PATH = re.compile(r"runs/([^/.][^/]*/){3}[^/.][^/]*", re.DOTALL)  # whatever else somebody has put there


class RecordError(Exception):
    """Records cannot be stored or read; the message says where and why, in one line."""


class RecordSettings(msgspec.Struct, frozen=True):
    """Where records are stored.

    Attributes:
        address: `s3://bucket/prefix`, `gs://bucket/prefix`, `mlflow+https://host#experiment`, or an absolute path of a
            folder that is mounted.
        variables: Variables for the clients of the clouds, such as AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, AWS_REGION or
            GOOGLE_SERVICE_ACCOUNT_KEY, and those of MLflow; they count before those of the environment. Empty = the
            environment's alone.
    """

    address: str
    variables: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        """Refuse what is no address. RecordError with what is allowed."""
        if self.address.startswith(_SCHEMES if is_uri(self.address) else "/"):
            return
        raise RecordError(f"{RECORDS}={self.address!r} is not an address of records; allowed: {ADDRESSES}")

    @property
    def folder(self) -> str:
        """The path, where records are stored in a folder; empty for a bucket or a server."""
        path = self.address.removeprefix("file://")
        return "" if is_uri(path) else path

    @classmethod
    def of(cls, address: str, variables: Mapping[str, str] = {}) -> "RecordSettings | None":
        """Return the settings for the value of TFSTEPS_RECORDS; None = records are stored nowhere.

        Args:
            address: One of NOWHERE, or an address of ADDRESSES. `mlflow` = the server of MLFLOW_TRACKING_URI.
            variables: From which those for the clients of the clouds and of MLflow are taken.

        Raises:
            RecordError: It is not an address.
        """
        address = address.strip()
        if address in NOWHERE:
            return None
        chosen = {k: v for k, v in variables.items() if k.lower().startswith(_PREFIXES)}
        if address == mlflow_records.NAME or address.startswith(mlflow_records.PREFIX):
            try:
                return cls(*mlflow_records.resolve(address, {**os.environ, **chosen}))
            except ValueError as error:
                raise RecordError(f"{RECORDS}={hidden(address)!r} is not an address of records: {error}") from error
        return cls(address.rstrip("/") or "/", chosen)


class RecordStore:
    """The records at one address. Every method raises RecordError if the address cannot be used.

    Attributes:
        address: For messages.
    """

    def __init__(self, settings: RecordSettings) -> None:
        """Keep the address; no request is sent, and no folder is made."""
        self.address = settings.address
        with _one_line(self.address):
            self._files = _open(settings)

    def put(self, attempt: AttemptFolder, until: float) -> None:
        """Store the files of an attempt that exist.

        Args:
            attempt: Below `store.home()`.
            until: Value of `time.monotonic()` after which no further request is sent.
        """
        folder = attempt.folder.relative_to(store.home()).as_posix()
        with _one_line(self.address):
            self._files.put(folder, _contents(attempt), until)

    def copy(self, home: pathlib.Path, run: str = "", reports_of: Collection[pathlib.Path] = ()) -> None:
        """Copy records to `home`, laid out as `store` does; those that are there already are not read again.

        Args:
            home: A folder for the records of this address alone. What the address does not have any more is removed.
            run: Everything of this run; empty = of all runs, only what lists need.
            reports_of: Folders of attempts below `home` of which the report is copied as well.
        """
        with _one_line(self.address):
            below = f"runs/{store.quote(run)}" if run else "runs"
            files = self._files.list(below)
            listed = {file.path: file for file in files if _PATH.fullmatch(file.path) and file.size <= _FILE_BYTES}
            reports = {(folder.relative_to(home) / "report.html").as_posix() for folder in reports_of}
            selected_files = [
                file for path, file in listed.items() if run or path.rpartition("/")[2] in _INDEX or path in reports
            ]
            folders = {path.rpartition("/")[0] for path in listed}
            _forget(home, below, folders)
            with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
                for copied in [pool.submit(self._copy, file, home) for file in selected_files]:
                    copied.result()
            for folder in folders:
                AttemptFolder(home / folder).mark_copied(self.address)
            _set_times(home, listed)

    def _copy(self, stored: StoredFile, home: pathlib.Path) -> None:
        file = home / stored.path
        with contextlib.suppress(FileNotFoundError):
            known = file.stat()
            if known.st_size == stored.size and known.st_mtime == stored.changed:
                return
        content = self._files.get(stored.path)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.{os.getpid()}.new")
        with open_private(new, "wb") as out:
            out.write(content)
        os.utime(new, (stored.changed, stored.changed))
        new.replace(file)


class _Files(Protocol):
    """The files at an address."""

    def put(self, folder: str, files: Iterable[tuple[str, bytes]], until: float) -> None: ...
    def list(self, below: str) -> Iterator[StoredFile]: ...
    def get(self, path: str) -> bytes: ...


class _Bucket:
    """The files of a bucket or folder, by obstore."""

    def __init__(self, settings: RecordSettings) -> None:
        self._settings = settings

    @functools.cached_property
    def _store(self) -> Any:
        """The store of obstore. ImportError, FileNotFoundError for a folder, or an error of obstore's own."""
        from obstore.store import LocalStore, from_url  # noqa: PLC0415

        if folder := self._settings.folder:
            if not os.path.isdir(folder):  # noqa: PTH112
                raise FileNotFoundError("this folder does not exist here")
            return LocalStore(prefix=folder)
        limit = dt.timedelta(seconds=_REQUEST_SECONDS)
        return from_url(
            self._settings.address,
            config={name.lower(): value for name, value in self._settings.variables.items()},
            client_options={"timeout": limit, "connect_timeout": limit, "allow_http": True},
            retry_config={"max_retries": 2, "retry_timeout": limit},
        )

    def put(self, folder: str, files: Iterable[tuple[str, bytes]], until: float) -> None:
        import obstore  # noqa: PLC0415

        if self._settings.folder:
            os.makedirs(self._settings.folder, exist_ok=True)  # noqa: PTH103
        for name, content in files:
            check_time(until, name)
            obstore.put(self._store, f"{folder}/{name}", content)

    def list(self, below: str) -> Iterator[StoredFile]:
        import obstore  # noqa: PLC0415

        for chunk in obstore.list(self._store, below):
            for item in chunk:
                yield StoredFile(item["path"], item["size"], item["last_modified"].timestamp())

    def get(self, path: str) -> bytes:
        import obstore  # noqa: PLC0415

        return bytes(obstore.get(self._store, path).bytes())


def _open(settings: RecordSettings) -> _Files:
    if settings.address.startswith(mlflow_records.PREFIX):
        return MlflowRecords(settings.address, {**os.environ, **settings.variables})
    return _Bucket(settings)


def copies_of(address: str) -> pathlib.Path:
    """Return the folder on this machine for copies of the records at an address."""
    return store.home() / "copies" / short_hash(address)


@contextlib.contextmanager
def _one_line(address: str) -> Iterator[None]:
    """Turn whatever the block raises into a RecordError: a client has errors of its own, and long ones."""
    try:
        yield
    except ImportError:
        missing = "the package obstore is not installed; install it with `pip install 'tfsteps[store]'`"
        raise RecordError(f"{address}: {missing}") from None
    except Exception as error:
        raise RecordError(f"{address}: {str(error).partition(chr(10))[0][:_REASON_CHARACTERS]}") from error


def _contents(attempt: AttemptFolder) -> Iterator[tuple[str, bytes]]:
    for name in FILES:
        with contextlib.suppress(FileNotFoundError):
            yield name, (attempt.folder / name).read_bytes()
    if attempt.log.exists():
        yield from _end_of_log(attempt.log)


def _end_of_log(log: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a log, or of a long one its end as a segment, as if a writer had dropped what lies before."""
    files = [log, *(segment.path for segment in segments(log))]
    surplus = sum(file.stat().st_size for file in files) - LOG_BYTES
    if surplus <= 0:
        yield from ((file.name, file.read_bytes()) for file in files)
        return
    dropped = lines = 0
    kept = b""
    for file in files:
        with file.open("rb") as content:
            while dropped < surplus and (block := content.read(min(_BLOCK, surplus - dropped))):
                dropped += len(block)
                lines += block.count(b"\n")
            kept += content.read() if dropped >= surplus else b""
    cut = kept.find(b"\n") + 1  # the rest of a line
    yield log.name, b""
    yield Segment.of(log, dropped + cut, lines + bool(cut)).path.name, kept[cut:]


def _forget(home: pathlib.Path, below: str, folders: set[str]) -> None:
    """Remove the copies of attempts that an address does not have any more."""
    for known in (home / below).glob("*/*" if below.count("/") else "*/*/*"):
        if known.is_dir() and known.relative_to(home).as_posix() not in folders:
            shutil.rmtree(known, ignore_errors=True)


def _set_times(home: pathlib.Path, listed: Mapping[str, StoredFile]) -> None:
    """Give the folder of each run the time of its newest file: `store.runs` orders runs by it."""
    newest: dict[str, float] = {}
    for path, file in listed.items():
        run = path.split("/")[1]
        newest[run] = max(newest.get(run, 0.0), file.changed)
    for run, seconds in newest.items():
        with contextlib.suppress(FileNotFoundError):
            os.utime(home / "runs" / run, (seconds, seconds))
