"""The commands that write or check files: `init`, `validate`, `schema`."""

import enum
import json
import pathlib
import re
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
import yaml

from tfsteps import typed_json
from tfsteps.api.job_input import JobInput, check, find_system, name_of, read_file, with_settings
from tfsteps.cli.output_files import write_new, write_output
from tfsteps.cli.place_options import CheckedOn, Context, Namespace, Overrides
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say, warn
from tfsteps.console.text import shell_path
from tfsteps.kube.backoff import COMMAND_PATIENCE_SECONDS
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.spec import SpecError, TrainingJob
from tfsteps.spec.fields import Image
from tfsteps.spec.parse import to_plain
from tfsteps.systems import registry
from tfsteps.systems.base import System

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.job_cluster import JobCluster

_STARTER = pathlib.Path(__file__).parents[1] / "starter"
_STARTER_FILES = ("job.yaml", "train.py")
_BASE, _PROGRAM = "tensorflow/tensorflow:2.18.0", ("python", "train.py")  # of the Dockerfile
_CMD = f"CMD {json.dumps(_PROGRAM)}"


class Template(enum.StrEnum):
    """What `init` writes; each one is a folder of `starter`."""

    SINGLE = "single"
    MIRRORED = "mirrored"
    PS = "ps"
    EVALUATOR = "evaluator"
    TF1 = "tf1"
    KERAS = "keras"


def init(
    folder: Annotated[
        pathlib.Path, typer.Argument(metavar="FOLDER", help="Target folder; created if missing.")
    ] = pathlib.Path(),
    *,
    template: Annotated[
        Template,
        typer.Option(
            help="single: Keras in one process; mirrored: a training loop on two workers; ps: parameter servers; "
            "evaluator: mirrored, and an evaluator; tf1: TensorFlow 1's parameter servers; keras: Keras' fit on two "
            "workers."
        ),
    ] = Template.MIRRORED,
    dockerfile: Annotated[
        bool,
        typer.Option(
            "--dockerfile",
            help="Also write Dockerfile, .dockerignore and requirements.txt, to build an image of the folder; in a "
            "folder with a job.yaml only these.",
        ),
    ] = False,
    base: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="With --dockerfile: the base.", show_default=_BASE)
    ] = None,
) -> None:
    """Write a first job that runs at once.

    job.yaml, and the train.py that its replicas run. The job has the name of the folder. Nothing is overwritten.
    """
    if base is not None and not dockerfile:
        raise CommandError(f"--base {base} is for --dockerfile; add it, or leave it out")
    has_job = dockerfile and (folder / "job.yaml").is_file()
    files = {} if has_job else {name: _starter(template, name, folder.name) for name in _STARTER_FILES}
    if dockerfile:
        files |= _docker_files(base, _docker_command(read_file(str(folder / "job.yaml")).job) if has_job else _CMD)
        if (folder / "requirements.txt").is_file():  # of the user's program
            del files["requirements.txt"]
    write_new(
        {folder / name: content for name, content in files.items()}, "choose another folder: `tfsteps init FOLDER`"
    )
    print(*(folder / name for name in files), sep="\n")
    say(f"Run it: tfsteps run {shell_path(folder / 'job.yaml')}")


def _starter(template: Template, name: str, job: str) -> bytes:
    """Return a file of a template; in a folder with a name, it is that of the job."""
    text = (_STARTER / template / name).read_bytes()
    if name != "job.yaml" or not (stem := name_of(job)):
        return text
    name_line = re.compile(rb"^name: (.+)$", re.MULTILINE).search(text)
    assert name_line
    return re.sub(rb"(^name: |/)" + name_line[1] + rb"(?=$|:1$)", rb"\g<1>" + stem.encode(), text, flags=re.MULTILINE)


def _docker_command(job: TrainingJob) -> str:
    """Return the CMD of the image of a job, with a comment that names the role unless it is that of all.

    If a role has `args` and no command, there is an ENTRYPOINT, too: Kubernetes passes the args to that.
    """
    roles = job.resolved_roles()
    name = next((name for name in (job.decisive_replica[0], *roles) if roles[name].command), job.decisive_replica[0])
    role = roles[name]
    comments = []
    if not role.command:
        comments.append("job.yaml has no command, so that the replicas run this one: correct it.")
    others = ", ".join(other for other, its in roles.items() if its.program != role.program)
    if others:
        comments.append(f"Of the role {name}; {others} in job.yaml: another command, other arguments, or none.")
    elif role.command and not job.command:
        comments.append(f"Of the role {name}.")
    if any("$(" in word for word in role.program):
        comments.append("Kubernetes replaces $(NAME) by the variable; `docker run` does not.")
    command, args = role.command or _PROGRAM, role.args
    instructions = [f"CMD {json.dumps([*command, *args])}"]
    if any(its.args and not its.command for its in roles.values()):
        instructions = [f"ENTRYPOINT {json.dumps(command)}", f"CMD {json.dumps(args)}"]
    return "\n".join([*(f"# {comment}" for comment in comments), *instructions])


def _docker_files(base: str | None, command: str) -> dict[str, bytes]:
    """Return Dockerfile, .dockerignore and requirements.txt; `command` takes the place of the instruction CMD."""
    dockerfile = (_STARTER / "docker" / "Dockerfile").read_text(encoding="utf-8")
    if base is not None:
        try:
            typed_json.convert(base, Image)
        except msgspec.ValidationError as error:
            wrong = "is no image reference: [registry/]name[:tag][@sha256:digest], in lower case"
            raise CommandError(f"--base {base!r} {wrong}; correct it") from error
        dockerfile = dockerfile.replace(f"ARG BASE={_BASE}", f"ARG BASE={base}")
    dockerfile = dockerfile.replace(_CMD, command)
    from tfsteps.runs import code_archive  # noqa: PLC0415  it imports tarfile, and this command alone needs it

    ignored = "".join(f"{line}\n" for line in code_archive.docker_patterns())
    ours = "# What the image does not need, and what may hold a secret\nDockerfile\n.dockerignore\n"
    requirements = (_STARTER / "docker" / "requirements.txt").read_bytes()
    return {
        "Dockerfile": dockerfile.encode(),
        ".dockerignore": f"{ours}{ignored}".encode(),
        "requirements.txt": requirements,
    }


def validate(
    jobs: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Job files, YAML or JSON; `-` reads standard input.")
    ],
    *,
    system: Annotated[
        str | None, typer.Option(metavar="NAME", help="Check too that this job system can run it.")
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print the job, with fields in place of short forms such as `2(T4)`.")
    ] = False,
    on: Annotated[
        CheckedOn, typer.Option("--on", help="kubernetes: apply the platform settings of a namespace, too.")
    ] = CheckedOn.LOCAL,
    context: Context = "",
    namespace: Namespace = "",
    overrides: Overrides = None,
) -> None:
    """Check job files.

    Every problem is printed with its file and line. Exits 2 if there is any. With `--on kubernetes`, a job also gets
    the platform settings, as with `tfsteps run`; with a system on Kubernetes alone, only those of the file that
    TFSTEPS_SETTINGS names.
    """
    chosen = None if system is None else find_system(system)
    cluster = _cluster(on, system, context, namespace)
    code = int(ExitCode.SUCCEEDED)
    for number, file in enumerate(jobs):
        try:
            job_input = _with_settings(read_file(file, overrides or ()), chosen, cluster)
            if chosen:
                check(job_input, chosen)
        except SpecError as error:
            say(str(error))
            code = ExitCode.USAGE
        except CommandError as error:
            say(f"error: {error}")
            code = error.code
        else:
            if show:
                text = yaml.safe_dump(to_plain(job_input.job), sort_keys=False, allow_unicode=True, width=120)
                print(f"---\n{text}" if number else text, end="")
            else:
                print(f"{file}: {job_input.job.name} is fine")
    if code:
        raise typer.Exit(code)


def _cluster(on: CheckedOn, system: str | None, context: str, namespace: str) -> "JobCluster | None":
    """Return the cluster whose settings count, which were read; None = none is asked. CommandError for its options."""
    if on is CheckedOn.LOCAL:
        if context or namespace:
            raise CommandError("--context and --namespace are about a cluster; add --on kubernetes")
        return None
    from tfsteps.api.plan import choose  # noqa: PLC0415  without a cluster, most of it is not needed
    from tfsteps.systems.kubernetes.job_cluster import JobCluster  # noqa: PLC0415

    choose(on.value, system, context, namespace)
    cluster = JobCluster(context, namespace, COMMAND_PATIENCE_SECONDS)
    if warning := cluster.read_settings(registry.options()).warning:
        warn(warning)
    return cluster


def _with_settings(job_input: JobInput, system: System | None, cluster: "JobCluster | None") -> JobInput:
    """Return a job with the settings of a cluster, else with those of a file if it is for a system on Kubernetes."""
    job = job_input.job
    if cluster:
        job = cluster.with_settings(job, registry.options())
    elif system:
        job = with_settings(system, job, dry_run=True)
    return msgspec.structs.replace(job_input, job=job)


def schema(
    *,
    output: Annotated[
        pathlib.Path | None, typer.Option(metavar="FILE", help="File to write. Left out: standard output.")
    ] = None,
) -> None:
    """Print the JSON schema of job files."""
    from tfsteps.spec.schema import json_schema  # noqa: PLC0415  this command alone needs it

    text = msgspec.json.format(msgspec.json.encode(json_schema(registry.options()))).decode() + "\n"
    if output is None:
        print(text, end="")
    else:
        write_output(output, text)
