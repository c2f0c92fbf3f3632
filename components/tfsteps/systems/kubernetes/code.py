"""The code of a job on Kubernetes: each replica unpacks it before its program.

It is in a ConfigMap that the job owns, in a bucket to which it was uploaded where it was packed, or on a claim, which
`code_claim` stores it on.
"""

import base64
import pathlib
import posixpath
import shlex
from typing import Any

import msgspec

from tfsteps.runs import code_archive
from tfsteps.runs.code_archive import CodeError
from tfsteps.runs.identity import Identity, short_hash
from tfsteps.spec import CodeSource, Problem, ResolvedRole, TrainingJob
from tfsteps.spec.pod import Volume
from tfsteps.systems.base import LaunchError
from tfsteps.systems.expansion import escaped
from tfsteps.systems.features import no_commands
from tfsteps.systems.kubernetes.capabilities import ADD_COMMAND

MOST_BYTES = 700 << 10
"""The largest compressed archive: the API server takes ConfigMaps of 1 MiB, and requests with them as base64."""

FOLDER_VARIABLE = "TFSTEPS_CODE_DIR"
"""The environment variable of replicas with the folder of the unpacked code."""

_FOLDER = "/tmp/tfsteps-code"  # noqa: S108  of the container, which every user of an image may write to
_MOUNT, _FILE = "/tfsteps-code", "code.tar.gz"


def spec_problems(job: TrainingJob) -> list[Problem]:
    """Return the roles of a job with code that have no command: an image's entrypoint cannot be preceded."""
    wrong = "is missing: the code is unpacked before a command, and the image's entrypoint is not known"
    return [Problem(path=use.path, wrong=wrong, fix=ADD_COMMAND) for use in no_commands(job)]


def with_code(job: TrainingJob, source: CodeSource, identity: Identity) -> TrainingJob:
    """Return a job whose replicas unpack their code, which is `source`, before their program.

    Raises:
        LaunchError: The code was not packed.
    """
    roles = {
        name: msgspec.structs.replace(role, command=_unpacking(source, resolved), working_dir=_absolute(resolved))
        for (name, role), resolved in zip(job.roles.items(), job.resolved_roles().values(), strict=True)
    }
    volumes = [] if source.bucket else [Volume(mount=_MOUNT, config_map=_name(source, identity), read_only=True)]
    if source.claim:
        volumes = [Volume(mount=_MOUNT, pvc=source.claim, sub_path=source.claim_folder or None, read_only=True)]
    return msgspec.structs.replace(
        job,
        roles=msgspec.structs.replace(job.roles, **roles),
        working_dir=None,
        env={FOLDER_VARIABLE: _FOLDER, **job.env},
        volumes=(*job.volumes, *volumes),
    )


def config_maps(job: TrainingJob, source: CodeSource, identity: Identity, namespace: str) -> list[dict[str, Any]]:
    """Return the ConfigMap with the code of a job; empty if it is elsewhere. It is a dependent of the job.

    Raises:
        LaunchError: The code was not packed, or is too large.
    """
    if source.bucket:
        return []
    try:
        archive = code_archive.read(_digest(source))
    except CodeError as error:
        raise LaunchError(str(error), retryable=False) from error
    if len(archive) > MOST_BYTES:
        wrong = f"code is {len(archive) >> 10} KiB packed, and a ConfigMap takes at most {MOST_BYTES >> 10} KiB"
        largest = code_archive.largest(_digest(source))
        raise LaunchError(f"{wrong}; the largest files: {largest}; {code_archive.reduce_hint()}", retryable=False)
    labels = {**job.labels, **identity.labels()}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": _name(source, identity), "namespace": namespace, "labels": labels},
            "immutable": True,
            "binaryData": {_FILE: base64.b64encode(archive).decode()},
        }
    ]


def _digest(source: CodeSource) -> str:
    if source.digest is None:
        wrong = f"code {source.folder!r} is a folder of the machine that submits, and was not packed there"
        raise LaunchError(
            f"{wrong}; submit with `code` as an input of the step, or with `tfsteps run`", retryable=False
        )
    return source.digest


def _name(source: CodeSource, identity: Identity) -> str:
    """Return the name of the ConfigMap: of one attempt, because it has one owner, and of one content."""
    digest = _digest(source)
    return f"tfsteps-code-{digest[:12]}-{short_hash(identity.run, identity.task, str(identity.attempt))}"


def _absolute(role: ResolvedRole) -> str | None:
    return role.working_dir if role.working_dir and posixpath.isabs(role.working_dir) else None


def _unpacking(source: CodeSource, role: ResolvedRole) -> list[str]:
    """Return a role's command, preceded by a shell that unpacks the code, and that the program then replaces."""
    unpack = f"mkdir -p {_FOLDER} && tar -xzof {_MOUNT}/{_FILE} -C {_FOLDER}"
    needs = "tar"
    if source.bucket:
        program = pathlib.Path(__file__).with_name("fetch_code.py").read_text(encoding="utf-8")
        url = f"file://{_MOUNT}/{source.digest}.tar.gz" if source.claim else code_archive.url_of(source)
        words = shlex.join([program, url, _digest(source), _FOLDER])
        unpack = f'"$(command -v python3 || echo python)" -c {words}'
        needs = "Python"
    folder = posixpath.normpath(posixpath.join(_FOLDER, role.working_dir or ""))
    enter = "" if _absolute(role) else f" && cd {shlex.quote(folder)}"
    wrong = (
        f"tfsteps: the code cannot be used, see above; the image needs {needs}, and a user who may write to {_FOLDER}"
    )
    script = f"{unpack}{enter} || {{ echo {shlex.quote(wrong)} >&2; exit 1; }}; "
    return ["sh", "-c", escaped(script) + 'exec "$@"', "tfsteps", *role.command]
