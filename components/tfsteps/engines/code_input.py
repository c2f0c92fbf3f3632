"""The input `code` of a step: authors give a folder, and the pipeline carries its files as text."""

import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from tfsteps import typed_json
from tfsteps.engines.authoring import REFERENCE
from tfsteps.spec.problems import Problem, SpecError

CODE = "code"
_PACKED = re.compile(r"[0-9a-f]{64}[:@].*")  # with the archive itself, or the bucket that has it


def with_packed_code(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a step with the folder that `code`, or `code` of `spec`, names as packed text.

    With a bucket, the folder is uploaded, and the text is its hash and the bucket.

    Relative folders start from the current one. References, and text that is packed already, stay as they are.

    Raises:
        CodeError: The folder cannot be packed, is too large for a pipeline, or cannot be uploaded to its bucket.
    """
    value, spec, inputs = inputs.get(CODE), inputs.get("spec"), dict(inputs)
    if isinstance(spec, Mapping) and CODE in spec:
        inputs["spec"] = {key: part for key, part in spec.items() if key != CODE}
        value = value or spec[CODE]
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str) and value and REFERENCE not in value and not _PACKED.fullmatch(value):
        value = {"folder": value}
    if isinstance(value, Mapping):
        value = _packed(value)
    return {**inputs, CODE: value} if value else inputs


def _packed(source: Mapping[str, Any]) -> str:
    import msgspec  # noqa: PLC0415  authors of pipelines without code import neither this nor the rest

    from tfsteps.runs import code_archive  # noqa: PLC0415
    from tfsteps.spec import CodeSource  # noqa: PLC0415

    try:
        declared = typed_json.convert(dict(source), CodeSource)
    except msgspec.ValidationError as error:
        raise code_archive.CodeError(
            f"code {dict(source)!r} is wrong: {error}; write a folder, or {_FIELDS}"
        ) from error
    if declared.claim and not declared.digest:
        fix = "store it by `tfsteps run --code-bucket pvc://CLAIM`, and write its `digest` in place of `folder`"
        raise code_archive.CodeError(f"code.bucket {declared.bucket} is on a cluster, and compiling asks none; {fix}")
    resolved, _ = code_archive.resolve(declared, pathlib.Path.cwd())
    if not resolved.bucket:
        return code_archive.to_text(resolved.digest or "")
    if not declared.claim:
        code_archive.upload(resolved)
    return f"{resolved.digest}@{resolved.bucket}"


def unpacked_code(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the code in the inputs of a task on this machine, and return the field `code` of its job; empty = no code.

    Raises:
        SpecError: The input is no packed code.
    """
    from tfsteps.runs import code_archive  # noqa: PLC0415  as above

    if not (text := inputs.get(CODE)):
        return {}
    if _PACKED.fullmatch(text) and "@" in text[64:65]:
        return {CODE: {"digest": text[:64], "bucket": text[65:]}}
    try:
        return {CODE: {"digest": code_archive.from_text(text)}}
    except (code_archive.CodeError, OSError) as error:
        raise SpecError([Problem(path=(CODE,), wrong=f"cannot be used: {error}", fix=_FIX)], "inputs") from error


def input_problems(text: str) -> list[Problem]:
    """Return why a constant input is no packed code, for authors; empty = it is, or contains a reference."""
    if not text or REFERENCE in text or _PACKED.fullmatch(text):
        return []
    wrong = "is not packed code: a pod cannot read a folder of the author's machine"
    return [Problem(path=(CODE,), value=repr(text[:40]), wrong=wrong, fix=_FIX)]


_FIELDS = "{'folder': '.', 'bucket': 's3://bucket/folder'}"
_FIX = "Pass the folder to the step in the program, which packs it when the pipeline is compiled"
