r"""The types of text and number in a job file, each with a description of the allowed values and a pattern.

A pattern applies to the whole value, and has the same meaning in Python and in JSON Schema: ASCII classes, no `\w`.
"""

import re
from typing import Annotated

from msgspec import Meta

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_uri(folder: str) -> bool:
    """Tell whether `folder` is a URI, such as `gs://bucket/folder`, and not a path."""
    return bool(_SCHEME.match(folder))


def _suggest_name(text: str) -> str:
    """Return a valid name with the letters and digits of text such as `My Job_1`; empty if some cannot be kept."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:63].rstrip("-")
    return name if text.isascii() and name[:1].isalpha() else ""


def _suggest_variable(text: str) -> str:
    """Return a valid name for text such as `my-var`; empty if there is none with all its letters and digits."""
    name = re.sub(r"[-.\s]+", "_", text.strip())
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else ""


Name = Annotated[
    str,
    Meta(
        pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$",
        extra={"suggest": _suggest_name},
        description="1 to 63 lower-case letters, digits and '-', a letter first, no '-' last",
        examples=["mnist"],
    ),
]
Text = Annotated[
    str,
    Meta(
        extra={"text": True},
        description="text; numbers, true and false are taken as written",
        extra_json_schema={"types": ["string", "number", "boolean"]},
    ),
]
Filled = Annotated[
    str,
    Meta(
        pattern=r"^[^\s]$|^[^\s].*[^\s]$",
        description="text that is not empty, on one line, without spaces around it",
    ),
]
Image = Annotated[
    str,
    Meta(
        pattern=(
            r"^([a-zA-Z0-9.\-]*[.][a-zA-Z0-9.\-]*(:[0-9]+)?/|[a-zA-Z0-9\-]+:[0-9]+/|localhost/)?"
            r"[a-z0-9]+([._\-]+[a-z0-9]+)*(/[a-z0-9]+([._\-]+[a-z0-9]+)*)*"
            r"(:[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127})?(@sha256:[0-9a-f]{64})?$"
        ),
        description="an image reference in lower case: [registry/]name[:tag][@sha256:digest]",
        examples=["ghcr.io/acme/mnist:1.4"],
    ),
]
Digest = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-f]{64}$",
        description="a SHA-256 hash, 64 hexadecimal digits in lower case",
    ),
]
CodeBucket = Annotated[
    str,
    Meta(
        pattern=(
            r"^((s3|gs|https?)://[^\s/@?#]+(/[^\s?#]*)?"
            r"|pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/(?!\.\.?(/|$))[^\s/?#]+)*/?)$"
        ),
        description=(
            "the URL of a folder, without credentials: s3://, gs://, a server that takes PUT at http(s)://, or "
            "pvc://CLAIM/FOLDER"
        ),
        examples=["s3://team/code"],
    ),
]
ResourceName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
        description="the name of an extended resource of Kubernetes: domain/name",
        examples=["amd.com/gpu"],
    ),
]
ObjectName = Annotated[
    str,
    Meta(
        pattern=r"^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        description="the name of a Kubernetes object: lower-case letters, digits, '-' and '.'",
        examples=["data"],
    ),
]
DataKey = Annotated[
    str,
    Meta(
        pattern=r"^[-._a-zA-Z0-9]{1,253}$",
        description="a key of a Secret or ConfigMap: letters, digits, '-', '_' and '.'",
        examples=["token"],
    ),
]
PodField = Annotated[
    str,
    Meta(
        pattern=(
            r"^(metadata\.(name|namespace|uid|(labels|annotations)\['[^']+'\])"
            r"|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?))$"
        ),
        description=(
            "metadata.name, .namespace, .uid, .labels['KEY'], .annotations['KEY'], "
            "spec.nodeName, .serviceAccountName, status.hostIP, .podIP"
        ),
        examples=["metadata.name"],
    ),
]
Absolute = Annotated[
    str,
    Meta(
        pattern=r"^/(?!(.*/)?\.\.(/|$)).*$",
        description="an absolute path without '..'",
        examples=["/data"],
    ),
]
MountPath = Annotated[
    str,
    Meta(pattern=r"^/[^:\s]+$", description="an absolute path below /, without ':' and spaces", examples=["/data"]),
]
Relative = Annotated[
    str,
    Meta(
        pattern=r"^(?!/)(?!(.*/)?\.\.(/|$)).+$",
        description="a relative path without '..'",
        examples=["export"],
    ),
]
EnvName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="letters, digits and '_', no digit first",
        extra={"suggest": _suggest_variable},
        examples=["BATCH_SIZE"],
    ),
]
MetricName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z][A-Za-z0-9_.\-]{0,62}$",
        description="1 to 63 letters, digits, '_', '.' and '-', a letter first",
        examples=["accuracy"],
    ),
]
MOST_REPLICAS = 10_000
"""The most replicas of one role."""

Count = Annotated[
    int,
    Meta(
        ge=1,
        le=MOST_REPLICAS,
        description=f"a whole number from 1 to {MOST_REPLICAS}; leave a role without replicas out",
        examples=[2],
    ),
]
GPU_PATTERN = r"^(-1|0?\.[0-9]+|([0-9]+|-1|0?\.[0-9]+)\s*[(（]\s*[^\s(),]+\s*([,，]\s*[^\s(),]+\s*)?[)）])$"  # noqa: RUF001
GpuCount = Annotated[
    int,
    Meta(
        ge=0,
        le=128,
        description="a whole number from 0 to 128; or 2(TYPE), 2(VENDOR,TYPE), a fraction such as 0.5, -1 for all GPUs",
        examples=[1, "2(T4)"],
        extra_json_schema={
            "instead": {
                "anyOf": [
                    {"type": "integer", "minimum": -1, "maximum": 128},
                    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                    {"type": "string", "pattern": GPU_PATTERN},
                ]
            }
        },
    ),
]
Fraction = Annotated[
    float,
    Meta(
        gt=0,
        lt=1,
        extra={"parse": float, "suggest": lambda _text: None},
        description="a number above 0 and below 1",
        examples=[0.5],
    ),
]
Limit = Annotated[int, Meta(ge=0, le=10_000, description="a whole number from 0 to 10000", examples=[3])]
Members = Annotated[int, Meta(ge=1, le=10_000, description="a whole number from 1 to 10000", examples=[3])]
Priority = Annotated[int, Meta(ge=0, le=100, description="a whole number from 0 to 100", examples=[50])]
