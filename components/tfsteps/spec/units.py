"""Short notations for quantities: `30m`, `4Gi`, `500m`. Each is parsed once and stored as a number."""

import os
import re
from collections.abc import Callable
from typing import Annotated, TypeVar

from msgspec import Meta

_NumberT = TypeVar("_NumberT", int, float)

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"[0-9]{1,18}(\.[0-9]{1,18})?"
_DURATION = rf"({_NUMBER}[smhd])+|{_NUMBER}"
_BYTES = rf"{_NUMBER}(Ki|Mi|Gi|Ti|k|M|G|T)?"
_CORES = rf"{_NUMBER}m?"
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_duration(text: str) -> float:
    """Return seconds for `90`, `30s`, `10m`, `1h30m`, `7d`. ValueError for anything else."""
    if not re.fullmatch(_DURATION, text):
        raise ValueError("is not a duration")
    return sum(float(number) * _SECONDS.get(unit, 1.0) for number, unit in re.findall(r"([0-9.]+)([smhd]?)", text))


def parse_keeping(text: str) -> float:
    """Return 0 for `stop`, else seconds as `parse_duration`."""
    return 0.0 if text == "stop" else parse_duration(text)


def parse_bytes(text: str) -> int:
    """Return bytes for a Kubernetes memory quantity: `4Gi`, `500M`, `1048576`. ValueError for anything else."""
    if not re.fullmatch(_BYTES, text):
        raise ValueError("is not an amount of memory")
    number = text.rstrip("KMGTik")
    factor = (_BINARY | _DECIMAL).get(text[len(number) :], 1)
    return round(float(number) * factor) if "." in number else int(number) * factor


def parse_cores(text: str) -> float:
    """Return cores for a Kubernetes CPU quantity: `2`, `0.5`, `500m`. ValueError for anything else."""
    if not re.fullmatch(_CORES, text):
        raise ValueError("is not an amount of CPU")
    return float(text.removesuffix("m")) / (1000 if text.endswith("m") else 1)


def suggest_duration(text: str) -> str | None:
    """Return a valid duration for `30 min`, `PT1H` or `2 weeks`; None if there is no suggestion."""
    part = re.compile(r"([0-9.]+)\s*(w|d|h|m|s)(?:eeks?|ays?|(?:ou)?rs?|in(?:ute)?s?|ec(?:ond)?s?)?[\s,]*")
    rest = text.lower().strip().removeprefix("p").removeprefix("t")
    if not re.fullmatch(f"(?:{part.pattern})+", rest):
        return None
    parts = part.findall(rest)
    return "".join(f"{float(number) * 7:g}d" if unit == "w" else number + unit for number, unit in parts)


def suggest_bytes(text: str) -> str | None:
    """Return a valid amount for `4 GB`, `4gib` or `100m`; None if there is no suggestion."""
    match = re.fullmatch(rf"({_NUMBER})\s*([kmgt])(i?)b?(ytes?)?", text.strip().lower())
    if not match:
        return None
    number, _, unit, binary, _ = match.groups()
    return f"{number}{unit.upper()}i" if binary else number + (unit if unit == "k" else unit.upper())


def environment_limit(
    name: str,
    parse: Callable[[str], _NumberT],
    kind: str,
    *,
    least: _NumberT,
    most: _NumberT,
    default: _NumberT,
    allowed: str,
) -> tuple[_NumberT, str]:
    """Return the limit in an environment variable, and what is wrong with the variable; empty = nothing.

    Args:
        name: The variable.
        parse: Returns the limit in a text. ValueError if it contains none.
        kind: What a text must be: `a duration`.
        least: The smallest limit, beside 0, which means none.
        most: The largest limit.
        default: The limit if the variable is empty or wrong.
        allowed: The allowed values, for the message.
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return default, ""
    try:
        limit = parse(text)
    except ValueError:
        return default, f"{name}={text!r} is not {kind}; allowed: {allowed}"
    if limit and not least <= limit <= most:
        return default, f"{name}={text!r} is too {'small' if limit < least else 'large'}; allowed: {allowed}"
    return limit, ""


def suggest_cores(text: str) -> str | None:
    """Return a valid amount for `2 cores` or `500 millicores`; None if there is no suggestion."""
    match = re.fullmatch(rf"({_NUMBER})\s*(m|milli)?\s*(v?cpus?|cores?|c)?", text.strip().lower())
    return match[1] + ("m" if match[3] else "") if match else None


def format_bytes(amount: float) -> str:
    """Return `amount` bytes in the largest binary unit that leaves a number of at least one: `1.5 GiB`."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.0f} {units[0]}" if units[0] == "B" or amount >= 100 else f"{amount:.1f} {units[0]}"


def format_duration(seconds: float) -> str:
    """Return `seconds` as `0.4s`, `12s`, `3m05s`, `2h10m`, `7d`, for people."""
    if seconds < 10:
        return f"{seconds:.1f}s".replace(".0s", "s")
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s" if whole % 60 else f"{whole // 60}m"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m" if whole % 3600 >= 60 else f"{whole // 3600}h"
    days, rest = divmod(whole, 86400)
    return f"{days}d{rest // 3600}h" if rest >= 3600 else f"{days}d"


def write_duration(seconds: float) -> str:
    """Return `seconds` as a duration that `parse_duration` reads, exactly: `7d`, `1h30m`, `0.5s`."""
    whole, rest = divmod(seconds, 60)
    parts, minutes = [], int(whole)
    for unit, length in (("d", 1440), ("h", 60), ("m", 1)):
        count, minutes = divmod(minutes, length)
        parts += [f"{count}{unit}"] if count else []
    parts += [f"{rest:.18f}".rstrip("0").rstrip(".") + "s"] if rest or not parts else []
    return "".join(parts)


def write_keeping(seconds: float) -> str:
    """Return `stop` for 0, else a duration."""
    return write_duration(seconds) if seconds else "stop"


def write_bytes(amount: int) -> str:
    """Return `amount` bytes as a Kubernetes quantity, exactly, in the unit with the fewest digits: `4Gi`, `500M`."""
    exact = [f"{amount // factor}{unit}" for unit, factor in (_BINARY | _DECIMAL).items() if amount % factor == 0]
    return min([*exact, str(amount)], key=lambda text: len(text.rstrip("KMGTik")))


def write_cores(cores: float) -> int | str:
    """Return cores as a Kubernetes quantity, exactly: 2, `500m`."""
    return int(cores) if cores == int(cores) else f"{cores * 1000:.12g}m"


Duration = Annotated[
    float,
    Meta(
        gt=0,
        le=3650 * 86400.0,
        extra={"parse": parse_duration, "suggest": suggest_duration, "write": write_duration},
        description="a duration above zero, up to 3650d: seconds, or numbers with s, m, h or d",
        examples=["30m", "1h30m", 90],
        extra_json_schema={"types": ["string", "number"], "pattern": f"^({_DURATION})$"},
    ),
]
Delay = Annotated[
    float,
    Meta(
        ge=0,
        le=3650 * 86400.0,
        extra={"parse": parse_duration, "suggest": suggest_duration, "write": write_duration},
        description="a duration up to 3650d, or 0: seconds, or numbers with s, m, h or d",
        examples=["5m", 0],
        extra_json_schema={"types": ["string", "number"], "pattern": f"^({_DURATION})$"},
    ),
]
Keeping = Annotated[
    float,
    Meta(
        ge=0,
        le=3650 * 86400.0,
        extra={"parse": parse_keeping, "suggest": suggest_duration, "write": write_keeping},
        description="`stop`, or a duration up to 3650d",
        examples=["30m", "stop"],
        extra_json_schema={"types": ["string", "number"], "pattern": f"^(stop|{_DURATION})$"},
    ),
]
Memory = Annotated[
    int,
    Meta(
        ge=2**20,  # a smaller value lacks its unit: `memory: 4`
        le=2**50,
        extra={"parse": parse_bytes, "suggest": suggest_bytes, "write": write_bytes},
        description="an amount of memory from 1Mi to 1024Ti: bytes, or a number with Ki, Mi, Gi, Ti, k, M, G or T",
        examples=["4Gi", "512Mi"],
        extra_json_schema={"types": ["string", "integer"], "pattern": f"^({_BYTES})$"},
    ),
]
Cpu = Annotated[
    float,
    Meta(
        gt=0,
        le=1024.0,  # a larger value is probably thousandths without m: `cpu: 2000`
        extra={"parse": parse_cores, "suggest": suggest_cores, "write": write_cores},
        description="an amount of CPU above zero, up to 1024: cores, or thousandths with m",
        examples=["2", "500m"],
        extra_json_schema={"types": ["string", "number"], "pattern": f"^({_CORES})$"},
    ),
]
MemoryRequest = Annotated[
    Memory,
    Meta(
        description="an amount of memory as for limits, or REQUEST~LIMIT",
        examples=["4Gi~8Gi"],
        extra_json_schema={"pattern": rf"^({_BYTES})(\s*~\s*({_BYTES}))?$"},
    ),
]
CpuRequest = Annotated[
    Cpu,
    Meta(
        description="an amount of CPU as for limits, or REQUEST~LIMIT",
        examples=["2~4"],
        extra_json_schema={"pattern": rf"^({_CORES})(\s*~\s*({_CORES}))?$"},
    ),
]
