"""Random job files: never a traceback, and each problem names its field and line.

TFSTEPS_FUZZ_SEED=n makes others, TFSTEPS_FUZZ=n more or fewer.
"""

import os
import pathlib
import random
import time

import pytest

from tfsteps import spec
from tfsteps.systems import registry

ROOT = pathlib.Path(__file__).parents[3]
FILES = sorted([*(ROOT / "docs/examples").glob("*"), *(ROOT / "pipelines/jobs").glob("*.yaml")])
TEXTS = [file.read_text() for file in FILES]
LINES = [line for text in TEXTS for line in text.splitlines() if line.strip()]
OPTIONS = registry.options()
COUNT = int(os.environ.get("TFSTEPS_FUZZ", "20000"))
SEED = int(os.environ.get("TFSTEPS_FUZZ_SEED", "0"))
PARTS = 4

_WORDS = """
null ~ true no on 0 -1 1e999 .inf .nan 0x1F 1_000 07 12:30:45 2020-99-99 2020-01-01 9999999999999999999999 5Gi -5m
1h30m '' "" "\\u0000" "\\ud800" \U0001f600 é \u202e \x07 \x85 \ufeff [] {} [[]] [{}] {a: b} &a *a <<:
!!python/object:os.system !!binary !!set !!timestamp % @ ` | > - ? : # --- ... , "{" '}' {run_id} {x} {} {{ $(A) ${A}
../.. /dev/shm s3://b file:///x
"""
WORDS = _WORDS.split()


def edited(dice, text):
    """Return a text with one edit, as fingers and merges make them."""
    lines = text.splitlines() or [""]
    row = dice.randrange(len(lines))
    line = lines[row]
    at = dice.randrange(len(line) + 1)
    key, colon, _ = line.partition(":")
    match dice.randrange(9):
        case 0:
            lines[row] = line[:at] + dice.choice(WORDS) + line[at:]
        case 1:
            lines[row] = line[:at] + line[at + 1 :]
        case 2:
            lines[row] = f"{key}{colon} {dice.choice(WORDS)}"
        case 3:
            lines.insert(row, dice.choice(LINES))
        case 4:
            del lines[row]
        case 5:
            lines[row] = dice.choice(["  ", " ", "\t", "- "]) + line
        case 6:
            lines[row] = line.lstrip()
        case 7:
            other = dice.choice(LINES).partition(":")[2]
            lines[row] = f"{key}{colon}{other}"
        case _:
            return text[: dice.randrange(len(text) + 1)]
    return "\n".join(lines)


def grown(dice, depth=0):
    """Return random YAML in flow style, of the fields' own names where there is a choice."""
    match dice.randrange(4 if depth < 4 else 1):
        case 0 | 1:
            return dice.choice(WORDS)
        case 2:
            return f"[{', '.join(grown(dice, depth + 1) for _ in range(dice.randrange(4)))}]"
        case _:
            keys = [dice.choice([*KEYS, *WORDS]) for _ in range(dice.randrange(5))]
            return f"{{{', '.join(f'{key}: {grown(dice, depth + 1)}' for key in keys)}}}"


KEYS = sorted({*spec.TrainingJob.__struct_fields__, *spec.Role.__struct_fields__, *spec.Resources.__struct_fields__})


def texts(seed, count):
    """Yield texts: edits of good files, few or many; files with random values; random YAML."""
    dice = random.Random(seed)
    for _ in range(count):
        text = dice.choice(TEXTS)
        match dice.randrange(4):
            case 0:
                text = "\n".join(f"{dice.choice(KEYS)}: {grown(dice)}" for _ in range(dice.randrange(1, 6)))
            case 1:
                text = f"name: x\nroles: {{worker: {{}}}}\n{dice.choice(KEYS)}: {grown(dice)}\n"
            case _:
                for _ in range(dice.choice([1, 1, 2, 5])):
                    text = edited(dice, text)
        yield text


def check(error, text):
    """Check that an error is all that a person needs."""
    longest = text.count("\n") + text.count("\x85") + text.count("\r") + 1
    for problem in error.problems:
        assert problem.line is not None
        assert 1 <= problem.line <= longest
        assert problem.wrong
        assert problem.fix
        message = str(problem)
        assert message.isprintable()
        assert len(message) < 1000
    assert str(error).startswith("job.yaml:")


@pytest.mark.parametrize("part", range(PARTS))
def test_a_text_is_a_job_or_a_list_of_problems(part):
    outcomes = {"good": 0, "bad": 0}
    for text in texts(SEED * PARTS + part, COUNT // PARTS):
        started = time.process_time()
        try:
            job = spec.parse(text, "job.yaml", OPTIONS)
        except spec.SpecError as error:
            check(error, text)
            outcomes["bad"] += 1
        except Exception:  # noqa: BLE001  shown with the text, which is what is looked for
            pytest.fail(f"a traceback for {text!r}")
        else:
            runs_or_is_refused(job)
            outcomes["good"] += 1
        assert time.process_time() - started < 5, text
    assert min(outcomes.values()) > COUNT / PARTS / 50, outcomes


def runs_or_is_refused(job):
    """Let each job system look at a good job, as far as it can without a cluster."""
    for name in registry.plugins():
        for problem in registry.get(name).spec_problems(job):
            assert str(problem).isprintable()
        registry.get(name).warnings(job)
