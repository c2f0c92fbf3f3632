"""Finds, follows, explains and stops tasks on HAI Platform through its API."""

import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tfsteps.backends.base import NO_LABELS, Section
from tfsteps.backends.pipeline_link import pipeline_links
from tfsteps.backends.platform import PlatformBackend
from tfsteps.console.errors import CommandError
from tfsteps.console.outputs import verdict
from tfsteps.kube.backoff import COMMAND_PATIENCE_SECONDS
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.platforms.hai import access, schema
from tfsteps.platforms.hai.client import Client, newest_messages
from tfsteps.platforms.hai.job import ChainFollower, HaiJob
from tfsteps.platforms.hai.runs import HaiRun, listed_runs, refreshed, stop_task
from tfsteps.platforms.hai.tracker import ChainTracker
from tfsteps.runs.events import Event, State
from tfsteps.runs.graph import Node, NodeKind, Surroundings


@contextlib.contextmanager
def hai() -> Iterator["HaiBackend"]:
    """Yield what has been launched on the platform that is configured; a refusal of it ends the command."""
    try:
        yield HaiBackend(Client(access.find(), patience=COMMAND_PATIENCE_SECONDS))
    except AccessError as error:
        raise CommandError(str(error)) from error
    except ApiError as error:
        raise CommandError(str(error), ExitCode.PLATFORM if error.unavailable else ExitCode.USAGE) from error


class HaiBackend(PlatformBackend[HaiRun]):
    """The tasks of the user whose token is configured, on one HAI Platform."""

    name = schema.NAME

    def __init__(self, client: Client) -> None:
        """Store the client; no request is sent."""
        self._client = client

    @property
    def where(self) -> str:
        return f"on {self._client.access.name}"

    def jobs(self, run: str = "", labels: Mapping[str, str] = NO_LABELS) -> list[HaiRun]:
        return [job for job in listed_runs(self._client, run) if labels.items() <= schema.labels(job.task).items()]

    def refreshed(self, job: HaiRun) -> HaiRun:
        return refreshed(self._client, job)

    def request_stop(self, job: HaiRun) -> None:
        stop_task(self._client, job.task)

    def requeue(self, jobs: Sequence[HaiRun]) -> None:
        """Have HAI interrupt the tasks: their nodes are free, and they wait in the queue at their old place."""
        running = [job for job in jobs if not job.status.state.terminal and job.status.state is not State.SUSPENDED]
        for job in jobs:
            if job not in running:
                print(f"already ended, or paused: {verdict(job.status)}")
            elif job.task["queue_status"] != "scheduled":
                print(f"{job.status.job}: waits in the queue already")
            else:
                self._client.suspend(job.chain)
                print(f"{job.status.job}: HAI interrupts it within about 10 s, and queues it again")

    def change(self, jobs: Sequence[HaiRun], priority: str, queue: str) -> None:
        """Change level and group of the tasks that have not ended."""
        level = schema.named_level(priority) if priority else None
        if priority and level is None:
            allowed = f"0 to 100, or {', '.join(schema.LEVELS)}"
            raise CommandError(f"--priority {priority} is no priority; expected {allowed}")
        if queue:
            self._check_group(queue)
        for job in jobs:
            if job.status.state.terminal:
                how = verdict(job.status).rstrip(".")
                raise CommandError(f"{job.status.job} has ended: {how}; `tfsteps rerun` runs it again")
        for job in jobs:
            if level is not None:
                self._client.set_priority(job.chain, level)
            if queue:
                self._client.set_group(job.chain, queue)
            words = [f"priority {schema.level_name(level)} ({level})"] if level is not None else []
            print(f"{job.status.job}: {', '.join([*words, *([f'group {queue}'] if queue else [])])}")

    def _check_group(self, group: str) -> None:
        """Refuse a group that is not certainly the user's: with AUTO it would stop HAI's scheduler for every user."""
        known = self._client.retry(self._client.groups)
        if group.partition("#")[0] not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise CommandError(f"--queue {group} is no group of nodes of which you have a quota; yours: {listed}")

    def past_events(self, job: HaiRun) -> list[Event]:
        tracker = ChainTracker(job.plan.replicas)
        return ChainFollower(self._client, job.status.job, job.chain, tracker).look()

    def events(self, job: HaiRun) -> Iterator[Event]:
        status = job.status
        return HaiJob(
            self._client, job.plan.replicas, name=status.job, chain_id=job.chain, created=status.created
        ).events()

    def now(self) -> float:
        return self._client.server_time() or time.time()

    def surroundings(self, run: str, jobs: Sequence[HaiRun]) -> Surroundings:
        """Return the launchers on this machine, and the names of the Workflows: HAI does not know their cluster."""
        workflows = dict.fromkeys(schema.workflow(job.task)[:2] for job in jobs if job.run_object)
        pipelines = [
            Node(
                kind=NodeKind.PIPELINE,
                name=name,
                detail=f"in namespace {namespace} of the cluster that launched the task",
                links=pipeline_links(run, namespace, name),
            )
            for namespace, name in workflows
        ]
        return msgspec.structs.replace(super().surroundings(run, jobs), pipelines=pipelines)

    def sections(self, job: HaiRun) -> Iterator[Section]:
        columns = [
            job.task.get(f"{name}_list") or [] for name in ("id", "begin_at", "end_at", "worker_status", "stop_code")
        ]
        rows = itertools.zip_longest(*columns, fillvalue="")
        title = "tasks of the chain: id, begin, end, state of the ranks, stop code"
        yield title, [["" if cell is None else str(cell) for cell in row] for row in rows]
        yield "messages of HAI", [[line] for line in newest_messages(self._client.system_log(job.chain))]
