"""The address of a pipeline run in the web page of its engine, which only the platform knows."""

import os
import string
import urllib.parse

from tfsteps.console.errors import CommandError

URL = "TFSTEPS_PIPELINE_URL"
"""Variable of commands: `https://argo.example/workflows/{namespace}/{workflow}`, or with `{run_id}`."""

_FIELDS = {"namespace", "workflow", "run_id"}


def pipeline_links(run: str, namespace: str, workflow: str) -> dict[str, str]:
    """Return the address of a pipeline run under the name `pipeline`; empty if the platform has set none.

    Raises:
        CommandError: The setting is not a URL, or has another field.
    """
    template = os.environ.get(URL, "").strip()
    if not template:
        return {}
    try:
        fields = {field for _, field, _, _ in string.Formatter().parse(template) if field is not None}
    except ValueError:
        fields = {"?"}
    parts = urllib.parse.urlsplit(template)
    if not (parts.scheme in ("http", "https") and parts.netloc and fields <= _FIELDS):
        example = "https://argo.example/workflows/{namespace}/{workflow}"
        known = ", ".join(f"{{{name}}}" for name in sorted(_FIELDS))
        raise CommandError(f"{URL}={template!r} is not usable; expected a URL, with {known} if needed: {example}")
    values = {"namespace": namespace, "workflow": workflow, "run_id": run}
    return {"pipeline": template.format(**{name: urllib.parse.quote(text, safe="") for name, text in values.items()})}
