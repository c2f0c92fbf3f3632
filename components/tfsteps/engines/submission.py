"""What a command hands to an engine that runs a pipeline, and functions that engines share for it."""

import pathlib
import shlex
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import yaml

from tfsteps.console.errors import CommandError
from tfsteps.console.inputs import confirmed
from tfsteps.console.messages import say
from tfsteps.engines.authoring import Compiled
from tfsteps.runs.demo import Mark
from tfsteps.runs.pipeline_record import LocalSubmission as Recorded
from tfsteps.schedule import Schedule
from tfsteps.spec.spelling import nearest
from tfsteps.text.streams import takes_any


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `tfsteps submit`, as described in its help. Empty = not set.

    Attributes:
        parameters: Inputs by name, as text.
        folder: Working directory of steps that run on this machine.
        replace: Whether the earlier manual runs of the pipeline are removed first.
        yes: Whether a schedule that exists is updated without a question.
        demo: The mark of the run or the schedule; None = as it is compiled.
        options: Those of this engine alone, an instance of its `EnginePlugin.submit_options`; None = it has none.
    """

    compiled: Compiled
    parameters: dict[str, str]
    name: str
    when: Schedule | None
    context: str
    namespace: str
    service_account: str
    host: str
    folder: pathlib.Path
    dry_run: bool
    wait: bool
    yes: bool
    replace: bool
    demo: Mark | None = None
    options: Any = None


class Rerun(msgspec.Struct, frozen=True, kw_only=True):
    """What `tfsteps rerun` was asked for.

    Attributes:
        run: Id of the run of this machine that is repeated.
        recorded: What it was started with. Its working folder exists.
        compiled: Its pipeline, as it was compiled then.
        parameters: Inputs that change, by name, as text.
        run_id: Id of the new run; empty = a new one.
    """

    run: str
    recorded: Recorded
    compiled: Compiled
    parameters: Mapping[str, str]
    run_id: str


def check_names(supplied: Iterable[str], known: Iterable[str], missing: Iterable[str]) -> None:
    """Raise CommandError for an input that the pipeline does not have, or a required input that is not set.

    Args:
        supplied: Names of the inputs that are set.
        known: Names of all inputs of the pipeline.
        missing: Names of its required inputs.
    """
    names = list(known)
    for name in supplied:
        if name not in names:
            guess = nearest(name, names)
            fix = f"write {guess}" if guess else f"it has {', '.join(names) or 'none'}"
            raise CommandError(f"--param {name}: the pipeline has no such input; {fix}")
    if lacking := [name for name in missing if name not in set(supplied)]:
        raise CommandError(f"the pipeline requires {', '.join(lacking)}; add --param {lacking[0]}=VALUE")


def agree(difference: str, *, yes: bool) -> None:
    """Show how a schedule that exists would change. CommandError unless the user wants that.

    As `kubectl create` and `argo cron create`, `submit` replaces nothing that exists without consent: two pipelines may
    have chosen the same name. With --yes it is declarative, as `kubectl apply` and `argo cron update`.
    """
    say(f"{difference}\nThe schedule exists, and was submitted with another content. Runs that exist do not change.")
    instead = "nothing was changed: without a terminal, add --yes to update the schedule, or choose another --name"
    if not confirmed("Update the schedule?", yes=yes, without_terminal=instead):
        raise CommandError("nothing was changed: choose another --name to keep both schedules")


def show_command(run: str, context: str, namespace: str) -> str:
    """Return the command that shows a run on a cluster; `context` empty = the current one."""
    return shlex.join(["tfsteps", "show", run, "--on", "kubernetes", *options_of(context), "--namespace", namespace])


def options_of(context: str) -> list[str]:
    """Return the options of tfsteps and kubectl for a context of the kubeconfig; empty = the current one."""
    return ["--context", context] if context else []


def print_yaml(documents: list[dict[str, Any]]) -> None:
    """Print documents to standard output."""
    dumped = yaml.dump_all(documents, Dumper=_Plain, sort_keys=False, allow_unicode=takes_any(sys.stdout), width=120)
    print(dumped, end="")


class _Plain(yaml.SafeDumper):
    """Writes repeated values in full instead of as YAML aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True
