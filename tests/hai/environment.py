"""A platform of its own for one case, and the launchers that the case starts for it."""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from tests.conformance.environment import Launcher
from tests.hai.server import Server
from tfsteps.runs.identity import Identity
from tfsteps.runs.store import AttemptFolder, quote

_ROOT = pathlib.Path(__file__).parents[2]
TOKEN = "secret-token"


@dataclass
class HaiEnvironment:
    """One case's platform.

    Attributes:
        folder: For its files, the ranks' output and the launchers' own.
        options: Of the server.
        env: The launchers' environment beside this process's own.
    """

    folder: pathlib.Path
    options: Mapping[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    _launchers: list[Launcher] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.server = Server(self.folder / "platform", **self.options)
        self.platform = self.server.platform
        self.env = {"MARSV2_SERVER": self.server.url, "MARSV2_USER_TOKEN": TOKEN, **self.env}
        return self

    def __exit__(self, *_: object) -> None:
        for launcher in self._launchers:
            if launcher.process.poll() is None:
                launcher.process.kill()
                launcher.process.wait()
        self.server.close()

    def launch(
        self, job: Mapping[str, Any], *, run: str = "run", task: str = "task", home: str = "home", attempt: int = 0
    ) -> Launcher:
        """Start a launcher. Another `home` stands for another machine."""
        name = f"{quote(task)[:50]}-{home}-{attempt}"
        file, output_file = self.folder / f"{name}.json", self.folder / f"{name}.txt"
        quick = {"finish": "1s", "grace": "2s", "sigterm_delay": "1s"}
        options = {"workspace": str(_ROOT / "tests/programs"), **quick}
        fields = {
            "name": "case",
            "deadlines": {"total": "3m"},
            "output_dir": str(self.folder / "out/{run_id}/{task}"),
            **job,
            "systems": {"hai": {**options, **job.get("systems", {}).get("hai", {})}},
        }
        file.write_text(json.dumps(fields))
        with output_file.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.hai.launcher", file, run, task, str(attempt)],
                cwd=_ROOT,
                env={**os.environ, "TFSTEPS_HOME": str(self.folder / home), **self.env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        folder = AttemptFolder.of(Identity(run=run, task=task, attempt=attempt)).folder.parts[-4:]
        launcher = Launcher(process, AttemptFolder(self.folder.joinpath(home, *folder)), output_file)
        self._launchers.append(launcher)
        return launcher

    # --- what is on the platform

    def tasks(self) -> list[Any]:
        """Return all tasks, interrupted ones too."""
        return list(self.platform.tasks)

    def newest(self) -> Any:
        """Return the newest task."""
        return self.platform.tasks[-1]

    def pods(self) -> int:
        """Return how many ranks run."""
        managers = [self.platform.manager(task) for task in self.tasks() if task.queue_status == "scheduled"]
        return sum(pod.process.poll() is None for manager in managers for pod in manager.pods)

    def gone(self) -> bool:
        """Tell whether nothing runs or waits."""
        return not self.platform.unfinished() and not self.pods()
