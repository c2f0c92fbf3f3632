"""The address of a TensorBoard that runs as a Service of a cluster. Pure, but for one variable of the environment."""

import os
import string
import urllib.parse

PORT = 6006
"""The port of the program; its Service has port 80."""

HEALTH = "/healthz"
"""The path of the health check, which does not count as activity."""

PUBLIC_URL = "TFSTEPS_TENSORBOARD_PUBLIC_URL"
"""Variable of a launcher: the public form of addresses, such as `https://ml.example/tensorboard/{namespace}/{name}/`."""


def public_url(namespace: str, name: str) -> str:
    """Return the public address of a TensorBoard; empty if the platform has set none.

    Raises:
        ValueError: The setting is not a URL, or has another field than `{namespace}` and `{name}`.
    """
    template = os.environ.get(PUBLIC_URL, "").strip()
    if not template:
        return ""
    try:
        fields = {field for _, field, _, _ in string.Formatter().parse(template) if field is not None}
    except ValueError:
        fields = {"?"}
    parts = urllib.parse.urlsplit(template)
    if not (
        parts.scheme in ("http", "https") and parts.netloc and fields <= {"namespace", "name"} and "name" in fields
    ):
        expected = "expected a URL with {namespace} and {name}: https://ml.example/tensorboard/{namespace}/{name}/"
        raise ValueError(f"{PUBLIC_URL}={template!r} is not usable; {expected}")
    return template.format(namespace=namespace, name=name)
