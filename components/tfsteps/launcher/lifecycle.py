"""One job from its description to its end: create or adopt, follow, verdict, outputs, clean up.

It is the same for every job system and pipeline engine.
"""

import contextlib
import functools
import os
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from tfsteps.launcher.deadlines import Clock, Exceeded, silence
from tfsteps.launcher.earlier_files import EarlierFiles, origin_of
from tfsteps.launcher.failure import FailureWatch, LastLines, RepeatedFailure, failure_summary, mixed_images, remarks
from tfsteps.launcher.log_writer import LogWriter, log_limit
from tfsteps.launcher.notify.notifier import Notifier, webhook_problems
from tfsteps.launcher.recorder import Observer, Recorder, RecordKeeper
from tfsteps.launcher.signals import StopRequests, on_termination
from tfsteps.runs.code import CodeReading
from tfsteps.runs.events import JobChanged, ReplicaChanged, ReplicaState, State, Tick
from tfsteps.runs.identity import Identity
from tfsteps.runs.location import Location
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.runs.store import AttemptFolder, open_private
from tfsteps.spec import SpecError, TrainingJob
from tfsteps.systems.base import Cause, Handle, JobNote, LaunchError, OnCluster, StoppedError, System
from tfsteps.systems.usage_interval import usage_interval
from tfsteps.tensorboard.event_files import EventFileGrowth
from tfsteps.text.tracebacks import stack, unexpected

_IN_POD = "KUBERNETES_SERVICE_HOST"
_LOOK_SECONDS = 10.0  # between two checks whether the event files have grown
_ENDED = {ReplicaState.SUCCEEDED, ReplicaState.FAILED}


def recorded_end(
    final: JobChanged, ended_by: Exceeded | RepeatedFailure | None, status: Status, last_lines: LastLines
) -> JobChanged:
    """Return the end of the job as it is recorded: what the launcher ended is a failure, and each has a summary.

    Args:
        final: The end by the job system.
        ended_by: Why the launcher ended the job: a deadline, or a failure that came again; None = it did not.
        status: Of the job; its failure summary is set.
        last_lines: Returns the last lines of a replica, as `failure_summary` needs them.
    """
    position = None
    stopped = final.state in (State.CANCELLED, State.FAILED)  # FAILED: the platform reports the killed replicas
    if stopped and isinstance(ended_by, Exceeded):
        quiet = ended_by.silence
        position = stack(last_lines(quiet.replica, quiet.incarnation) if quiet.replica else ())
        message = ended_by.message(status.waiting, position.frame)
        final = msgspec.structs.replace(final, state=State.FAILED, reason="DeadlineExceeded", message=message)
    elif stopped and isinstance(ended_by, RepeatedFailure):
        message, replica = ended_by.message, ended_by.replica
        final = msgspec.structs.replace(
            final, state=State.FAILED, reason="SameFailure", message=message, replica=replica
        )
    if final.state in (State.FAILED, State.LOST):
        status.state, status.reason, status.message = final.state, final.reason, final.message
        status.failure = failure_summary(status, last_lines, str(final.replica or ""))
        if position and not status.failure.tail:
            status.failure = msgspec.structs.replace(status.failure, tail=position.excerpt)
    return final


def launch(
    job: TrainingJob,
    identity: Identity,
    system: System,
    *,
    base_dir: pathlib.Path,
    observers: Sequence[Observer] = (),
    tensorboard_url: str = "",
    warnings: Sequence[str] | None = None,
    checked: bool = False,
) -> Status:
    """Run one attempt of a job to its end, complete its records, and return its final status.

    SIGTERM, SIGINT and SIGHUP stop the job; a second signal kills it.

    Args:
        job: The job.
        identity: Run, task and attempt of the job; an attempt that has not been run yet.
        system: The job system.
        base_dir: Folder that relative paths of the job start from.
        observers: Called with every change of the status and every log line.
        tensorboard_url: Recorded with the outputs; empty = none.
        warnings: What `system.warnings` returned for the job, if the caller has it; None = it is called here.
        checked: Whether `system.spec_problems` found nothing for this job; False = it is called here.

    Raises:
        SpecError: The job cannot run on this system. Nothing was created.
        LaunchError: The job could not be started, or its end could not be recorded.
    """
    _check(job, system, checked=checked)
    if problems := _bad_settings():
        raise LaunchError("; ".join(problems), retryable=False)
    paths = system.output_paths(job, identity, base_dir)
    first = first_status(job, identity, system, paths, tensorboard_url, warnings=warnings)
    before = EarlierFiles.of(first, job)
    return _followed(job, first, system, lambda: system.start(job, identity, paths), observers, before=before)


def begin(
    job: TrainingJob,
    identity: Identity,
    system: System,
    *,
    base_dir: pathlib.Path,
    warnings: Sequence[str] | None = None,
    checked: bool = False,
) -> Status:
    """Create a job, or adopt it, and return its first status without following it. Writes no records on this machine.

    Only for systems whose jobs outlive their launcher. A signal withdraws the job; `warnings` and `checked` are as in
    `launch`.

    Raises:
        SpecError: The job cannot run on this system. Nothing was created.
        LaunchError: The job could not be created, or this launcher's pod is being evicted and the job stays.
    """
    _check(job, system, checked=checked)
    paths = system.output_paths(job, identity, base_dir)
    status = first_status(job, identity, system, paths, "", warnings=warnings)
    stop = StopRequests(system, AttemptFolder.of(identity))
    with on_termination(stop.request, stop.signals):
        try:
            handle = system.start(job, identity, paths)
        except StoppedError as error:
            _end(status, JobChanged(at=time.time(), state=State.CANCELLED, reason="Stopped", message=str(error)))
            return status
        stop.attach(handle)
        _identify(status, handle, system)
        status.warnings += handle.warnings
        if stop.requested:
            with _created():
                _end(status, _last(handle))
        else:
            system.note(job, handle.name, handle.uid, JobNote.DETACHED)
    return status


def resume(
    job: TrainingJob, first: Status, system: System, *, observers: Sequence[Observer] = (), leaves: bool = False
) -> Status:
    """Follow a job that `begin` has created to its end, and return its final status, as `launch` does.

    Args:
        job: The job.
        first: The status that `begin` returned, or an equal one made from what is known of the job.
        system: The job system.
        observers: Called with every change of the status and every log line.
        leaves: Ctrl-C and a closed terminal leave the job running, recorded as detached; SIGTERM stops it.

    Raises:
        LaunchError: The job cannot be followed, or its end could not be recorded.
        KeyboardInterrupt: With `leaves`: the job was left running.
    """
    warnings = [f"{problem}. The default is used." for problem in _bad_settings()]  # no reason to leave the job
    now = msgspec.structs.replace(first, launcher=os.getpid(), warnings=first.warnings + warnings)
    start = functools.partial(system.attach, job, first.job, first.uid, first.created)
    return _followed(job, now, system, start, observers, before=EarlierFiles(), leaves=leaves)


def _check(job: TrainingJob, system: System, *, checked: bool) -> None:
    if problems := [*([] if checked else system.spec_problems(job)), *webhook_problems(job)]:
        raise SpecError(problems, job.name)


def _bad_settings() -> list[str]:
    """Return what is wrong with variables of this process's environment."""
    return [problem for problem in (log_limit()[1], usage_interval(0)[1]) if problem]


def _followed(
    job: TrainingJob,
    first: Status,
    system: System,
    start: Callable[[], Handle],
    observers: Sequence[Observer],
    *,
    before: EarlierFiles,
    leaves: bool = False,
) -> Status:
    """Follow the job that `start` returns to its end, write all records, and return its final status."""
    attempt = AttemptFolder.of(first.identity)
    stop = StopRequests(system, attempt)
    notifier = Notifier(job) if job.notify else None
    first.warnings += notifier.warnings if notifier else []
    try:
        lock = attempt.claim()
        with open_private(attempt.folder / "job.json", "wb") as file:
            file.write(msgspec.json.encode(job))
        logbook = LogWriter(attempt.log, log_limit()[0])
    except BlockingIOError as error:
        raise LaunchError(f"another launcher is running this task: {attempt.folder}", retryable=False) from error
    except OSError as error:
        raise LaunchError(f"the run folder cannot be used: {error}; set TFSTEPS_HOME", retryable=True) from error
    # handle signals before the first status, which names the process to signal, and until all records are written
    with lock, contextlib.closing(logbook), on_termination(stop.request, stop.signals, leaves=leaves):
        try:
            recorder = Recorder(first, attempt, logbook, [*observers, *([notifier] if notifier else [])])
            records = RecordKeeper.of(attempt)
            source = job.code_source
            # the program is a file of the job's folder only if the replicas run in it; elsewhere they have their own
            in_folder = first.on_this_machine or source is not None
            words = job.resolved_roles()[job.decisive_replica[0]].program if in_folder else ()
            code = CodeReading("" if _IN_POD in os.environ else first.base_dir, words, (source and source.digest) or "")
            try:
                handle = start()
            except StoppedError as error:
                recorder.end(JobChanged(at=time.time(), state=State.CANCELLED, reason="Stopped", message=str(error)))
            except LaunchError as error:
                if not (error.retryable and system.outlives_launcher):  # else it may have been created
                    with contextlib.suppress(LaunchError):  # the record cannot be saved: the first error says more
                        recorder.end(
                            JobChanged(at=time.time(), state=State.FAILED, reason="NotStarted", message=str(error))
                        )
                raise
            else:
                stop.attach(handle)
                try:
                    with _created():
                        _run(job, handle, system, recorder, stop, before=before, records=records, code=code)
                except KeyboardInterrupt:  # it leaves the job running
                    if not first.state.terminal:
                        first.detached = True
                        recorder.save()
                    raise
            try:
                from tfsteps import report  # noqa: PLC0415  keeps a waiting launcher small

                report.write(attempt, first)
            except Exception as error:  # noqa: BLE001  the report shows the verdict, and must not change it
                why = error if isinstance(error, OSError) else unexpected(error)
                first.warnings.append(f"The report could not be written: {why}")
            first.warnings += filter(None, [records.end() if records else ""])
        finally:
            if notifier:
                first.warnings += notifier.close(stop.notify_seconds)
    return first


@contextlib.contextmanager
def _created() -> Iterator[None]:
    """Mark every LaunchError of the block: the job exists. A fault of another kind becomes one, too."""
    try:
        yield
    except LaunchError as error:
        error.created = True
        raise
    except OSError:  # of the records and of standard output
        raise
    except Exception as error:  # such as a process that may start no more threads
        failed = LaunchError(unexpected(error), retryable=True)
        failed.created = True
        raise failed from error


# --- create


def first_status(
    job: TrainingJob,
    identity: Identity,
    system: System,
    paths: OutputPaths,
    tensorboard_url: str,
    *,
    warnings: Sequence[str] | None = None,
) -> Status:
    """Return the status of a job that is about to be created; `warnings` as in `launch`."""
    role, index = job.decisive_replica
    return Status(
        identity=identity,
        job=job.name,
        system=system.name,
        cluster=job.other_cluster if system.location == Location.KUBERNETES else "",
        location=system.location,
        outlives_launcher=system.outlives_launcher,
        decisive_replica=f"{role}-{index}",
        created=time.time(),
        launcher=os.getpid(),
        output=paths.output if paths.kept else "",
        logs=paths.logs if paths.kept else "",
        model=paths.model if paths.kept else "",
        tensorboard_url=tensorboard_url,
        replicas=[ReplicaStatus(role=name, index=i) for name, role in job.roles.items() for i in range(role.replicas)],
        warnings=system.warnings(job) if warnings is None else [*warnings],
        base_dir=str(paths.base_dir),
    )


# --- follow


def _run(
    job: TrainingJob,
    handle: Handle,
    system: System,
    recorder: Recorder,
    stop: StopRequests,
    *,
    before: EarlierFiles,
    records: RecordKeeper | None,
    code: CodeReading,
) -> None:
    """Follow the job to its end and record it."""
    status = recorder.status
    _identify(status, handle, system)
    before = before.of_job(handle)
    origin = origin_of(status, job, handle, before)
    with contextlib.suppress(OSError):  # then only the live view lacks its values
        AttemptFolder.of(status.identity).write_event_origin(origin)
    recorder.save()  # other commands find the job by this record
    if records:
        records.begin()
    final, ended_by = _follow(job, handle, recorder, stop)
    status.warnings += handle.warnings
    status.tensorboard_url = status.tensorboard_url or handle.tensorboard_url
    from tfsteps.launcher import event_summary  # noqa: PLC0415  keeps a waiting launcher small

    event_summary.set_outputs(status, job, handle, origin, before)
    if final.state is State.CANCELLED and stop.cause:
        final = msgspec.structs.replace(final, message=final.message or f"Stopped: {stop.cause}.")
    status.code = status.code or code.result()
    if final.state is State.SUCCEEDED:
        status.warnings += remarks(status, recorder.logbook.tails.last_lines)
    status.warnings += mixed_images(status)
    recorder.end(recorded_end(final, ended_by, status, recorder.logbook.tails.last_lines))
    policy = job.on_end or ("delete_pods" if status.state is State.SUCCEEDED else "keep")
    if policy != "keep":
        try:
            handle.remove("job" if policy == "delete" else "pods")
        except LaunchError as error:  # the verdict stays as it is
            status.warnings.append(f"Something is left: {error}.")


def _identify(status: Status, handle: Handle, system: System) -> None:
    if isinstance(system, OnCluster):
        status.context, status.home_namespace = system.cluster.context, system.cluster.home_namespace
    status.job, status.uid, status.namespace = handle.name, handle.uid, handle.namespace
    status.created = handle.created


def _last(handle: Handle) -> JobChanged:
    """Return the end of a job that is being stopped."""
    for event in handle.events():
        if isinstance(event, JobChanged) and event.state.terminal:
            return event
    raise LaunchError(f"{handle.name}: the job system stopped reporting before the job's end", retryable=True)


def _end(status: Status, final: JobChanged) -> None:
    status.state, status.reason, status.message, status.ended = final.state, final.reason, final.message, final.at


def _follow(
    job: TrainingJob, handle: Handle, recorder: Recorder, stop: StopRequests
) -> tuple[JobChanged, Exceeded | RepeatedFailure | None]:
    """Record every event of the job. Return the last one, and why the launcher ended the job; None = it did not."""
    clock = Clock(job.deadlines, time.monotonic())
    # locally, what restarts the processes judges them itself
    watched = not (job.names_backoff_limit or recorder.status.on_this_machine)
    watch = FailureWatch(recorder.status, recorder.logbook.tails.last_lines) if watched else None
    ended_by: Exceeded | RepeatedFailure | None = None
    limit, logs = job.deadlines.no_progress, recorder.status.logs
    # only that deadline depends on whether the event files grow
    growth = EventFileGrowth(logs, min(limit / 4, _LOOK_SECONDS)) if limit and logs else contextlib.nullcontext()
    with growth as event_files:
        for event in handle.events():
            if isinstance(event, JobChanged) and event.state.terminal:
                return event, ended_by
            for change in stop.stop_message(recorder.status):
                recorder.apply(change)
            clock.apply(event)
            recorder.apply(event)
            if isinstance(event, ReplicaChanged) and event.state in _ENDED:
                from tfsteps import report  # noqa: F401, PLC0415  now: after the verdict the user would wait
            if not isinstance(event, Tick):
                continue
            recorder.set_tensorboard(handle.tensorboard_url)
            if ended_by:
                continue
            if event_files and event_files.grown():
                clock.progress()
            status = recorder.status
            passed = clock.tick(time.monotonic(), visible=event.visible, readable=event.readable, age=handle.age)
            if passed:
                status.waiting = [r.name for r in status.replicas if r.state is ReplicaState.PENDING]
                quiet = silence(status, recorder.last_outputs, time.time(), passed.limit)
                passed = msgspec.structs.replace(passed, silence=quiet)
            if ended_by := passed or (watch.look() if watch else None):
                handle.stop(Cause.DEADLINE)
            elif notice := clock.notice():
                recorder.apply(JobChanged(at=time.time(), state=status.state, reason=status.reason, message=notice))
    raise LaunchError(f"{recorder.status.job}: the job system stopped reporting before the job's end", retryable=True)
