"""The name of the launcher's own pod, as its ServiceAccount's token says it."""

import base64
import json

import pytest

from tfsteps.systems.launcher_pod import _name_in


def token(claims):
    """Return a token as Kubernetes makes it: base64 without padding, in three parts."""
    return ".".join(["header", base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("="), "signature"])


@pytest.mark.parametrize("name", ["a", "ab", "abc", "abcd", "x" * 200])
def test_a_token_names_its_pod(name):
    bound = {"namespace": "ns", "node": {"name": "n"}, "pod": {"name": name, "uid": "u"}, "warnafter": 1}
    assert _name_in(token({"aud": ["a"], "exp": 1, "kubernetes.io": bound})) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "opaque",
        "a.b.c",
        "a.é.c",
        "a.%%%.c",
        token({}),
        token({"kubernetes.io": {"serviceaccount": {"name": "s"}}}),
        token({"kubernetes.io": {"pod": {"name": 1}}}),
        token([]),
    ],
)
def test_other_tokens_name_none(text):
    assert _name_in(text) == ""
