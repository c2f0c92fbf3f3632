"""Counts what `tfsteps lint` refuses in public pipelines that their engine runs; no file of theirs is kept here.

    python -m benchmarks.public_pipelines argo-workflows/examples hera/examples pipelines/test_data/.../valid

Each argument is a folder of a checkout: the examples of Argo Workflows, the manifests of Hera, the valid pipelines of
Kubeflow Pipelines. All YAML files below it are linted. The counts are by rule: the sentence without names and values.

An error is false if the newest version of the engine runs the pipeline as its author meant. `_TRUE` has the rules whose
errors in these files were compared with the engine's code or runs; exit code 1 means that there are others.
"""

import collections
import pathlib
import re
import sys
from collections.abc import Iterator

from tfsteps.cli.compiled import lint_messages, read
from tfsteps.console.errors import CommandError
from tfsteps.engines import registry

_SPECIFIC = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\{\{.*?\}\}|\[\d+\]|\b\d+\b")
_SHOWN = 3  # files named for each rule
_OTHERS = "is not a pipeline of Kubeflow Pipelines"  # such as a ConfigMap that an example needs
_TRUE = {
    "metadata.name: it is missing": "the API server refuses it; two examples have it below labels",
    "needs an argument": "Argo: inputs.parameters.NAME was not supplied",
    "which is an argument of its container": "the driver of 2.17 fails: not found in executor input",
    "IfPresent of the artifact": "the driver of 2.17 looks among parameters only",
    "reaches the program as it is": "the driver of 2.17 replaces no Concat, and no IfPresent of outputs",
    "placeholders of metadata never are": "the launcher of 2.17 has no such placeholder",
    "ParallelFor over artifacts": "the driver of 2.17: artifact iterator not implemented yet",
    "is left out, and a task in it takes it": "the driver of 2.17 fails to resolve it",
}


def main(folders: list[str]) -> int:
    """Print the counts of each folder; return 1 if a problem may be a false error, or a folder has no pipeline."""
    if not folders:
        sys.stderr.write(__doc__ or "")
        return 2
    failed = False
    for folder in folders:
        files = sorted(path for path in pathlib.Path(folder).rglob("*") if path.suffix in (".yaml", ".yml"))
        linted = {file: list(_problems(file)) for file in files}
        pipelines = {file: problems for file, problems in linted.items() if _OTHERS not in "".join(problems)}
        rules: dict[str, list[str]] = collections.defaultdict(list)
        for file, problems in pipelines.items():
            for problem in problems:
                rules[_rule(problem)].append(f"{file.relative_to(folder)}: {problem}")
        false = [text for texts in rules.values() for text in texts if not _reason(text)]
        failed = failed or bool(false) or not pipelines
        others = len(files) - len(pipelines)
        wrong = len(list(filter(None, pipelines.values())))
        print(
            f"{folder}: {len(pipelines)} pipelines, {wrong} with errors, {len(false)} errors not known as true; "
            f"{others} other manifests"
        )
        for rule, texts in sorted(rules.items(), key=lambda item: -len(item[1])):
            print(f"{len(texts):6} {rule}", f"       {_reason(texts[0]) or 'not known as true'}", sep="\n")
            print(*(f"         {text}" for text in texts[:_SHOWN]), sep="\n")
    return int(failed)


def _reason(problem: str) -> str:
    """Return why an error is true; empty = that is not known."""
    return next((reason for words, reason in _TRUE.items() if words in problem), "")


def _problems(file: pathlib.Path) -> Iterator[str]:
    try:
        compiled = read(str(file))
        yield from lint_messages(registry.plugin(compiled.engine), compiled.text)
    except CommandError as error:
        yield f"not read: {str(error).removeprefix(str(file))}"


def _rule(problem: str) -> str:
    """Return a sentence without its place, and without the names and values in it."""
    *_, sentence = problem.partition(": ")
    return _SPECIFIC.sub("_", sentence or problem)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
