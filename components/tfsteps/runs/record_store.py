"""Where the records of runs outlive this machine and the objects of a cluster: a bucket, or a folder such as a claim.

<address>/runs/<run>/<task>/<attempt>/   the files of the attempt that `FILES` names, as `store` has them

Buckets are reached by obstore, which finds its credentials in the variables that the clients of the clouds use.
"""

import concurrent.futures
import contextlib
import datetime as dt
import os
import pathlib
import re
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from tfsteps.runs import store
from tfsteps.runs.identity import short_hash
from tfsteps.runs.log_segments import Segment, segments
from tfsteps.runs.store import RECORDS, Attempt, open_private
from tfsteps.spec import is_uri

FILES = ("status.json", "job.json", "report.html", "curves.json", "usage.jsonl", "event-origin.json")
"""What is stored of an attempt, the most important first, and then the end of its log."""

LOG_BYTES = 1 << 20

_INDEX = ("status.json", "job.json")  # what lists and filters need
_SCHEMES = ("s3://", "gs://", "file://")
_PREFIXES = ("aws_", "google_")
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
        address: `s3://bucket/prefix`, `gs://bucket/prefix`, or an absolute path of a folder that is mounted.
        variables: Variables for the clients of the clouds, such as AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, AWS_REGION or
            GOOGLE_SERVICE_ACCOUNT_KEY; they count before those of the environment. Empty = the environment's alone.
    """

    address: str
    variables: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        """Refuse what is no address. RecordError with what is allowed."""
        if self.address.startswith(_SCHEMES if is_uri(self.address) else "/"):
            return
        allowed = "allowed: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, or the absolute path of a folder"
        raise RecordError(f"{RECORDS}={self.address!r} is not an address of records; {allowed}")

    @classmethod
    def of(cls, address: str, variables: Mapping[str, str] = {}) -> "RecordSettings | None":
        """Return the settings for the value of TFSTEPS_RECORDS; None = records are stored nowhere.

        Args:
            address: Empty or `none` = nowhere.
            variables: From which those for the clients of the clouds are taken.

        Raises:
            RecordError: It is not an address.
        """
        address = address.strip()
        if address in ("", "none"):
            return None
        return cls(address.rstrip("/") or "/", {k: v for k, v in variables.items() if k.lower().startswith(_PREFIXES)})


class RecordStore:
    """The records at one address. Every method raises RecordError if the address cannot be used.

    Attributes:
        address: For messages.
    """

    def __init__(self, settings: RecordSettings) -> None:
        """Open the address; no request is sent."""
        self.address = settings.address
        with _one_line(self.address):
            self._store = _open(settings)

    def put(self, attempt: Attempt, until: float) -> None:
        """Store the files of an attempt that exist.

        Args:
            attempt: Below `store.home()`.
            until: Value of `time.monotonic()` after which no further request is sent.
        """
        import obstore  # noqa: PLC0415

        folder = attempt.folder.relative_to(store.home()).as_posix()
        with _one_line(self.address):
            for name, content in _contents(attempt):
                if time.monotonic() > until:
                    raise TimeoutError(f"it took too long; {name} and what follows are missing")
                obstore.put(self._store, f"{folder}/{name}", content)

    def copy(self, home: pathlib.Path, run: str = "", reports_of: Collection[pathlib.Path] = ()) -> None:
        """Copy records to `home`, laid out as `store` does; those that are there already are not read again.

        Args:
            home: A folder for the records of this address alone. What the address does not have any more is removed.
            run: Everything of this run; empty = of all runs, only what lists need.
            reports_of: Folders of attempts below `home` of which the report is copied as well.
        """
        with _one_line(self.address):
            below = f"runs/{store.quote(run)}" if run else "runs"
            listed = {item["path"]: item for item in self._list(below)}
            reports = {(folder.relative_to(home) / "report.html").as_posix() for folder in reports_of}
            wanted = [
                item for path, item in listed.items() if run or path.rpartition("/")[2] in _INDEX or path in reports
            ]
            folders = {path.rpartition("/")[0] for path in listed}
            _forget(home, below, folders)
            with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
                for copied in [pool.submit(self._copy, item, home) for item in wanted]:
                    copied.result()
            for folder in folders:
                Attempt(home / folder).mark_copied(self.address)
            _set_times(home, listed)

    def _list(self, below: str) -> Iterator[Mapping[str, Any]]:
        import obstore  # noqa: PLC0415

        for chunk in obstore.list(self._store, below):
            for item in chunk:
                if _PATH.fullmatch(item["path"]) and item["size"] <= _FILE_BYTES:
                    yield item

    def _copy(self, item: Mapping[str, Any], home: pathlib.Path) -> None:
        import obstore  # noqa: PLC0415

        file, changed = home / item["path"], item["last_modified"].timestamp()
        with contextlib.suppress(FileNotFoundError):
            known = file.stat()
            if known.st_size == item["size"] and known.st_mtime == changed:
                return
        content = obstore.get(self._store, item["path"]).bytes()
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.{os.getpid()}.new")
        with open_private(new, "wb") as out:
            out.write(content)
        os.utime(new, (changed, changed))
        new.replace(file)


def copies_of(address: str) -> pathlib.Path:
    """Return the folder on this machine for copies of the records at an address."""
    return store.home() / "copies" / short_hash(address)


def _open(settings: RecordSettings) -> Any:
    """Return obstore's store of an address. ImportError, or an error of obstore's own."""
    from obstore.store import LocalStore, from_url  # noqa: PLC0415

    address = settings.address.removeprefix("file://")
    if not is_uri(address):
        return LocalStore(prefix=address, mkdir=True)
    limit = dt.timedelta(seconds=_REQUEST_SECONDS)
    return from_url(
        address,
        config={name.lower(): value for name, value in settings.variables.items()},
        client_options={"timeout": limit, "connect_timeout": limit, "allow_http": True},
        retry_config={"max_retries": 2, "retry_timeout": limit},
    )


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


def _contents(attempt: Attempt) -> Iterator[tuple[str, bytes]]:
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


def _set_times(home: pathlib.Path, listed: Mapping[str, Mapping[str, Any]]) -> None:
    """Give the folder of each run the time of its newest file: `store.runs` orders runs by it."""
    newest: dict[str, float] = {}
    for path, item in listed.items():
        run = path.split("/")[1]
        newest[run] = max(newest.get(run, 0.0), item["last_modified"].timestamp())
    for run, seconds in newest.items():
        with contextlib.suppress(FileNotFoundError):
            os.utime(home / "runs" / run, (seconds, seconds))
