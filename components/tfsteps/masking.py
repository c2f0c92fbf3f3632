"""Hides secrets in what people see: reports, comparisons and messages. Imports nothing of tfsteps.

`Masked` jobs are for people alone. What machines read stays whole: job.json, manifests, and what a dry run prints.
"""

import re
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

MASK = "***"

# Patterns are text, compiled at the first use: most commands load this module, and few need them.
_NOUN = (
    r"(?:token|secret|passw(?:or)?d|passwort|passphrase|pwd|credentials?|(?:api|access|account|auth|private)[-_.]?key)"
)
_NAME = rf"(?i)[\w.-]*{_NOUN}"  # `--hub-token`, but not `--max-tokens` and `--tokenizer`
_VARIABLE = r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE"
_USER = r"(?<=://)[^/?#\s@'\"]+@"
_BEARER = r"(?i)\b(bearer\s+|authorization[\"']?\s*[:=]\s*[\"']?basic\s+)[\w.~+/=-]{8,}"
_VALUE = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|["'][^\s]*|[^\s&;,'")}\]]+)"""
_ASSIGNED = rf"""(?i)({_NOUN}["']?\s*[=:]\s*){_VALUE}"""
_FOLLOWING = rf"(?i)(--?[\w.-]{{0,60}}{_NOUN}\s+)(?!-){_VALUE}"
_SHORTEST = 6  # characters of a credential; a shorter one may be a part of any word
_KEPT = 32  # credentials: each log-in of a long run gives another

_sent: dict[str, None] = {}


def sent(credential: str) -> str:
    """Note that `credential` is sent to a server, whose answer may quote it, and return it. Empty = none."""
    if len(credential) >= _SHORTEST and credential not in _sent:
        for form in (credential, urllib.parse.quote(credential, safe="")):
            _sent[form] = None
        while len(_sent) > 2 * _KEPT:
            _sent.pop(next(iter(_sent)), None)
    return credential


def hidden(text: str) -> str:
    """Return a message without the credentials that this process has sent, bearer tokens, and the users of URLs."""
    for credential in sorted(_sent, key=len, reverse=True):
        text = text.replace(credential, MASK)
    return re.sub(_BEARER, rf"\1{MASK}", re.sub(_USER, f"{MASK}@", text) if "://" in text else text)


def masked_words(words: Sequence[Any]) -> list[Any]:
    """Return a command or its arguments: `--api-key=x`, and `--api-key` with `x` as the next word."""
    result: list[Any] = []
    option = ""
    for word in words:
        text = word if isinstance(word, str) else ""
        name, sign, _ = text.partition("=")
        if option and not text.startswith("-"):
            result.append(MASK)
        elif sign and re.fullmatch(_NAME, name):
            result.append(f"{name}={MASK}")
        else:
            result.append(masked_job(word))
        option = text if text.startswith("-") and re.fullmatch(_NAME, text) else ""
    return result


def masked_job(value: Any, name: str = "", *, variables: bool = False) -> Any:
    """Return a job as plain data without its secrets; all that is not text stays as it is.

    Args:
        value: The job, or a part of it.
        name: The key of the part; empty = it has none.
        variables: Whether `name` is that of an environment variable.
    """
    secret = re.fullmatch(_NAME, name) and not name.lower().endswith("secret")  # the value of `secret` is a name
    match value:
        case {"name": str(variable), "value": str(text)}:  # as a pod lists its variables
            return {**value, "value": masked_job(text, variable, variables=True)}
        case Mapping():
            return {key: masked_job(item, str(key), variables=name == "env") for key, item in value.items()}
        case list() | tuple():
            return masked_words(value)
        case str() if secret or re.search(_VARIABLE, name.upper() if variables else name):
            return MASK
        case str():  # perhaps a piece of a program
            for pattern in (_ASSIGNED, _FOLLOWING):
                value = re.sub(pattern, rf"\1{MASK}", value)
            return hidden(value)
        case _:
            return value
