"""Starts the TensorBoard of a job, or finds the one that its operator runs, beside the code that follows the job."""

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tfsteps.json_errors import NOT_READABLE
from tfsteps.kube.answers import MALFORMED
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.permissions import how_to_opt_in
from tfsteps.systems.kubernetes.tensorboard.request import (
    SETTINGS,
    URL,
    NoStorageError,
    TensorBoardSettings,
    request_of,
)
from tfsteps.systems.kubernetes.tensorboard.start import start
from tfsteps.systems.kubernetes.tensorboard_link import address

_PATIENCE_SECONDS = 120.0
_POLL_SECONDS = 3.0
_LAST_SECONDS = 2.0  # for a start that has not finished when the job ends


class JobTensorBoard:
    """The TensorBoard of one job. Its errors are warnings: it never fails or delays the job.

    Attributes:
        url: Its address; empty = none yet.
        warning: Why there is none, or why it may show nothing; empty = no problem.
    """

    def __init__(
        self, api: Api, kind: JobKind, item: Callable[[], Mapping[str, Any]], age: Callable[[], float], *, wanted: bool
    ) -> None:
        """Prepare; no request is sent.

        Args:
            api: The cluster.
            kind: The kind of the job.
            item: Returns the job object as it was last seen; of an attached job, only its metadata at first.
            age: Returns the job's age in seconds.
            wanted: Whether the job asks for a TensorBoard; else there is no thread and no request.
        """
        self.url = self.warning = ""
        self._api = api.copy(_PATIENCE_SECONDS)
        self._kind, self._item, self._age, self._wanted = kind, item, age, wanted
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tensorboard", daemon=True)

    def start(self) -> None:
        """Start the thread, if the job asks for a TensorBoard."""
        if self._wanted:
            self._thread.start()

    def end(self) -> None:
        """Stop waiting for a TensorBoard: the job has ended. A running start gets two seconds more."""
        if not self._wanted:
            return
        ours = SETTINGS in self._annotations()
        if ours:
            self._thread.join(_LAST_SECONDS)
        self._ended.set()
        self._api.stopping.set()
        if self.url or self.warning:
            return
        if ours:
            self.warning = "There is no TensorBoard: the cluster did not create it before the job ended."
        elif link := self._kind.tensorboard_link(self._item()):
            self.url = address(self._api.copy(_LAST_SECONDS), link, self._item()["metadata"]["namespace"])
            self.warning = f"The TensorBoard is not ready: {link.note}." if link.note else ""

    def _run(self) -> None:
        try:
            while "spec" not in self._item():
                if self._ended.wait(0.1):
                    return
            if SETTINGS in self._annotations():
                self.url = self._start()
                self._annotate()
            else:
                self._find()
        except (ApiError, NoStorageError, ValueError) as error:
            fix = how_to_opt_in("tensorboard", error)
            self.warning = f"There is no TensorBoard: {error}{fix and f'; {fix}'}."
        except MALFORMED as error:
            self.warning = f"There is no TensorBoard: an answer of the cluster is not understood: {error!r}."
        except Stopped:
            return

    def _start(self) -> str:
        item = self._item()
        try:
            settings = msgspec.json.decode(self._annotations()[SETTINGS], type=TensorBoardSettings)
        except NOT_READABLE as error:
            raise ValueError(f"the job's annotation {SETTINGS} is not valid: {error}") from error
        specs = [role.template["spec"] for role in self._kind.roles(item).values()]
        request = request_of(item, specs, self._kind.container, settings)
        return start(self._api, request, max(0.0, settings.total - self._age()))

    def _find(self) -> None:
        """Wait for the address of the operator's TensorBoard, while the job runs."""
        while not self.url:
            link = self._kind.tensorboard_link(self._item())
            self.url = address(self._api, link, self._item()["metadata"]["namespace"]) if link else ""
            if self.url or self._ended.wait(_POLL_SECONDS):
                return

    def _annotate(self) -> None:
        """Write the address to the job object, for commands that did not start it."""
        meta = self._item()["metadata"]
        if self._annotations().get(URL) != self.url:
            patch = {"metadata": {"uid": meta["uid"], "annotations": {URL: self.url}}}
            with contextlib.suppress(ApiError):  # the launcher knows the address in any case
                self._api.patch(self._kind.resource, meta["namespace"], meta["name"], patch)

    def _annotations(self) -> Mapping[str, str]:
        return self._item()["metadata"].get("annotations") or {}
