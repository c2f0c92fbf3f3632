"""The namespace of a soak, its claim and images, the proxy that makes the faults, and the janitor."""

import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Self

from tests.cluster import images
from tests.conformance.systems import SYSTEMS
from tests.faults import faults
from tests.faults.fixture import NAMESPACES, Fixture, find
from tests.faults.proxy import Proxy, Rule
from tests.preflight.conftest import ACCOUNTS, Cluster, exists
from tests.soak.judge import RETENTION_SECONDS
from tests.support.claims import claim_of
from tests.support.tensorboard_image import provide
from tests.support.waiting import until
from tfsteps.kube.errors import ApiError

ROOT = pathlib.Path(__file__).parents[2]
_JANITOR_PERIOD, _JANITOR_LIFE = "3s", (20.0, 90.0)


class Environment:
    """A namespace on the cluster of KUBECONFIG. A context manager.

    Attributes:
        fixture: The namespace; Workflows and pods of steps.
        proxy: Before the API server, for launchers and janitors.
        images: Of the programs and of TensorBoards.
        janitors: How many janitors were started.
    """

    def __init__(self, seed: int) -> None:
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="tfsteps-soak-"))
        self._stack = contextlib.ExitStack()
        self._stop = threading.Event()
        self._dice = random.Random(seed)
        self._seed = seed
        self.janitors = 0

    @property
    def folder(self) -> pathlib.Path:
        """For files of launchers."""
        return self._folder

    @property
    def faults(self) -> int:
        """How many requests met a fault."""
        return sum(rule.met for rule in self.proxy.rules)

    def __enter__(self) -> Self:
        """Make it all; remove what there is if something cannot be made."""
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self) -> None:
        for system in SYSTEMS:
            system.install()
        self.fixture = Fixture(find(), self._folder, run=f"soak-{self._seed}-{os.getpid()}")
        self.images = _standin(), provide(pathlib.Path(tempfile.mkdtemp(dir=self._folder)))
        self.fixture.api.create(NAMESPACES, "", {"metadata": {"name": self.namespace}})
        self._stack.callback(self._remove_namespace)
        until(lambda: exists(self.fixture.api, ACCOUNTS, self.namespace, "default"))
        self._stack.enter_context(claim_of(Cluster(self.fixture.api), self.namespace))
        rules = [
            Rule("any", faults.storm, times=float("inf"), chance=0.02),
            Rule("any", faults.cut, times=float("inf"), chance=0.01),
            Rule("any", faults.refused, times=float("inf"), chance=0.002),
        ]
        self.proxy = self._stack.enter_context(
            Proxy(self.fixture.access, self.fixture.certificate, rules, seed=self._seed)
        )
        self.kubeconfig = self.fixture.kubeconfig(self.proxy.port, "soak")
        janitor = threading.Thread(target=self._run_janitors, name="janitor")
        janitor.start()
        self._stack.callback(janitor.join)
        self._stack.callback(self._stop.set)

    def __exit__(self, *_: object) -> None:
        """Remove it all."""
        self._stack.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def namespace(self) -> str:
        """Its name."""
        return self.fixture.namespace

    def environ(self, step: str = "") -> dict[str, str]:
        """Return the environment of a launcher; `step` = the pod of its step, empty = it runs in no pod."""
        environ = {**os.environ, "TFSTEPS_HOME": str(self._folder / "home"), "KUBECONFIG": str(self.kubeconfig)}
        if not step:
            return environ
        del environ["KUBECONFIG"]
        where = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.proxy.port)}
        return {**environ, **where, "POD_NAME": step}

    def _remove_namespace(self) -> None:
        with contextlib.suppress(ApiError):
            self.fixture.api.request("DELETE", NAMESPACES.path("", self.namespace))

    # --- the janitor

    def _run_janitors(self) -> None:
        """Run janitors, one after another: each is stopped or killed after a while."""
        keep = f"{RETENTION_SECONDS:.0f}s"
        command = [sys.executable, "-m", "tfsteps.janitor", "-n", self.namespace, "--period", _JANITOR_PERIOD]
        with (self._folder / "janitor.log").open("wb") as log:
            while not self._stop.is_set():
                self.janitors += 1
                options = ["--keep-succeeded", keep, "--keep-failed", keep]
                process = subprocess.Popen([*command, *options], cwd=ROOT, env=self.environ(), stdout=log, stderr=log)
                self._stop.wait(self._dice.uniform(*_JANITOR_LIFE))
                process.send_signal(self._dice.choice([signal.SIGKILL, signal.SIGTERM]))
                process.wait()

    def janitor_log(self) -> str:
        """Return what all janitors printed."""
        return (self._folder / "janitor.log").read_text(errors="replace")


def _standin() -> str:
    return images.provide_own("standin", ROOT / "images/standin/Dockerfile", ROOT)
