"""`train_function`: what is shipped of a function, what is refused with its line, and steps of pipelines."""

import concurrent.futures
import enum
import functools
import inspect
import json
import logging.handlers
import math
import random
import subprocess
import sys
import types
import urllib.parse as urls
from collections import OrderedDict
from random import shuffle

import pytest
import yaml
from hera.workflows import DAG, Workflow
from kfp import compiler, dsl

from tests.support import log_lines
from tfsteps import train_function
from tfsteps.api import CommandError, FunctionError, function_source
from tfsteps.api.function_source import RUN_OPTIONS
from tfsteps.engines.kfp import lint
from tfsteps.runs import code_archive
from tfsteps.systems.expansion import expanded

RATES = {"slow": 0.1, "fast": (1.0)}
OBJECT = object()


RATE = 0.5


def square(x: "Number", power=RATES) -> "Number":  # noqa: F821  annotations are not evaluated
    return x**2 * power["fast"]


def takes_namespace(namespace: str):
    return namespace


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def numbers(count):
    yield from range(count)


same = square


def uses_object():
    return [OBJECT for _ in range(2)]


def uses_lambda():
    return short(1)


short = lambda x: x  # noqa: E731


def kept(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)

    return call


@train_function(workers=2, image="acme/tf:1", metrics=["area"])
def circle(radius: float, label: str = "a b", more: "list[int] | None" = None) -> "dict[str, OrderedDict]":
    """Use imports and constants of the module."""
    ordered: OrderedDict = OrderedDict(RATES)
    values = [RATES[name] for name in ordered]
    return {"area": math.pi * radius, "label": label, "more": more, "file": urls.quote("a b"), "n": len(values)}


def shipped(function, tmp_path, **parameters):
    """Run the shipped files of a function in an empty folder; return its result."""
    job = function.job(**parameters)
    code_archive.unpack(job["code"]["digest"], tmp_path)
    args = [expanded(word, {"HOME": "/"}) for word in job["args"]]  # as every job system does
    done = subprocess.run(
        [sys.executable, *job["command"][1:], *args], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1].removeprefix("tfsteps result "))


def test_the_shipped_function_returns_what_the_function_returns(tmp_path):
    assert shipped(circle, tmp_path, radius=2, label="x=1 'y'", more=[3]) == circle(2, "x=1 'y'", [3])
    assert shipped(circle, tmp_path, radius=2) == circle(2)
    assert shipped(circle, tmp_path, radius=2, label="$$ $(HOME) $x") == circle(2, "$$ $(HOME) $x")


def test_none_is_passed_only_where_it_is_the_default():
    assert circle.job(radius=2, more=None)["args"] == circle.job(radius=2)["args"]
    for values, name in (({"radius": None}, "radius"), ({"radius": 1, "label": None}, "label")):
        with pytest.raises(FunctionError, match=f"circle: {name} is None, which no argument of a replica can be"):
            circle.job(**values)


@train_function
def leaves_a_line_open() -> int:
    print("100%|##########|", end="")
    return 1


def test_a_result_has_a_line_of_its_own(tmp_path):
    assert shipped(leaves_a_line_open, tmp_path) == 1


def test_the_job_of_a_function():
    job = circle.job(radius=0.5)
    assert (job["name"], job["image"], job["args"]) == ("circle", "acme/tf:1", ["--radius=0.5"])
    assert job["roles"] == {"worker": {"replicas": 2}}
    assert job["outputs"] == {"metrics": {"area": "result/area"}}
    assert job["code"] == circle.job(radius=1)["code"], "the files do not depend on the parameters"


@train_function
def recursive(n: int) -> int:
    return n if n == 0 else recursive(n - 1)


def test_a_function_may_call_itself(tmp_path):
    assert shipped(recursive, tmp_path, n=2) == 0


@train_function
def composed(n: int, rate: float = RATE) -> dict:
    def scaled(value, by=RATE):
        return by * value

    total = sum(square(number) for number in numbers(n))
    return {"total": total, "even": even(n), "same": same(n), "scaled": scaled(total), "rate": rate}


def test_functions_of_the_module_are_shipped_with_what_they_use(tmp_path):
    assert shipped(composed, tmp_path, n=4) == composed(4)
    assert composed(4) == {"total": 14, "even": True, "same": 16, "scaled": 7, "rate": RATE}


def closure():
    inner = 1

    def inside(a: int) -> int:
        return a + inner

    return inside


def uses_helper(a: int) -> int:
    value = a
    return value + len(uses_object())


def uses_local_module():
    return log_lines.log_line


def imports_local_module():
    from tests.support import waiting  # noqa: PLC0415

    return waiting


def uses_decorated():
    return decorated()


class Level(enum.IntEnum):
    """Numbers whose text is not Python."""

    LOW = 1


LEVEL, INFINITE, ORDERED = Level.LOW, math.inf, OrderedDict(a=1)
logged = kept(numbers)


def renamed():
    return 1


before = renamed


def renamed():
    return 2


def uses_a_level():
    return LEVEL


def uses_its_file():
    return __file__


def uses_infinity():
    return INFINITE


def uses_an_ordered_mapping():
    return ORDERED


def uses_a_wrapped_function():
    return logged(1)


def uses_functions_of_one_name():
    return before() + renamed()


def imports_a_neighbour():
    from .neighbour import value  # noqa: PLC0415

    return value


@train_function
def below_packages() -> list:
    names = [concurrent.futures.Future.__name__, logging.handlers.QueueHandler.__name__]
    return [*names, logging.handlers.__name__]


def test_modules_below_packages_are_imported_as_the_function_reaches_them(tmp_path):
    assert shipped(below_packages, tmp_path) == ["Future", "QueueHandler", "logging.handlers"]


def uses_a_short_function():
    return uses_lambda()


def uses_an_object_by_default(a: list = [OBJECT]):  # noqa: B006
    return a


def untyped(
    a: int,
    b,
):
    return a, b


def odd_default(a: list = [1j]):  # noqa: B006
    return a


def odd_type(a: complex):
    return a


def variable(*values: int):
    return values


def undefined():
    return get_ipythonn()  # noqa: F821


@kept
def decorated():
    return 1


class Class:
    def method(self):
        return self


async def coroutine():
    return 1


def generated():
    scope = {}
    exec("def made(): return 1", scope)
    return scope["made"]


def line_of(function, more):
    return function.__code__.co_firstlineno + more


@pytest.mark.parametrize(
    ("function", "wrong"),
    [
        (lambda: 1, "it is a lambda"),
        (closure(), "it is defined in another function"),
        (Class.method, "it is defined in a class"),
        (Class().method, "it is a method, not a function"),
        (len, "it is a builtin_function_or_method, not a function"),
        (coroutine, "it is a coroutine or a generator"),
        (generated(), "its source is not available"),
        (uses_helper, f"py, line {line_of(uses_object, 1)}, in uses_object: 'OBJECT' is a object of its module; only"),
        (uses_a_short_function, f"line {line_of(short, 0)}, in <lambda>: it is a lambda"),
        (uses_decorated, f"line {line_of(decorated.__wrapped__, 0)}, in decorated: its decorator 'kept' is not"),
        (uses_an_object_by_default, f"line {line_of(uses_an_object_by_default, 0)}: 'OBJECT' is a object"),
        (uses_a_level, f"line {line_of(uses_a_level, 1)}: 'LEVEL' is a Level of its module; only"),
        (uses_its_file, "`__file__` is a path of this machine, whose files are not shipped; pass a path"),
        (uses_infinity, "'INFINITE' is inf, which is not plain JSON; only"),
        (uses_an_ordered_mapping, "'ORDERED' is a OrderedDict of its module; only"),
        (uses_a_wrapped_function, "in numbers: another function wraps it, which is not shipped; call the function"),
        (kept(numbers), "another function wraps it, which is not shipped"),
        (uses_functions_of_one_name, "in renamed: 'renamed' is another object of its module now; rename one of them"),
        (imports_a_neighbour, "the module '.neighbour' is a file of this machine"),
        (uses_object, f"line {line_of(uses_object, 1)}: 'OBJECT' is a object of its module"),
        (uses_local_module, f"line {line_of(uses_local_module, 1)}: the module 'tests.support.log_lines' is"),
        (imports_local_module, f"line {line_of(imports_local_module, 1)}: the module 'tests.support' is"),
        (untyped, f"line {line_of(untyped, 2)}: parameter 'b' has no type; write one of int, float, str, bool, list"),
        (odd_default, f"line {line_of(odd_default, 0)}: the default of 'a' is [1j]"),
        (odd_type, "parameter 'a' has the type <class 'complex'>; use one of int"),
        (variable, "parameter 'values' has no name at a call"),
        (decorated.__wrapped__, "its decorator 'kept' is not shipped; remove it"),
    ],
)
def test_what_cannot_be_shipped_is_refused_with_the_line(function, wrong):
    with pytest.raises(FunctionError, match=" cannot be shipped: ") as error:
        train_function(function)
    assert wrong in str(error.value)
    assert isinstance(error.value, CommandError)


@pytest.mark.parametrize(
    ("parameters", "wrong"),
    [
        ({}, "circle needs the parameter 'radius'"),
        ({"radius": 1, "colour": 2}, "circle has no parameter 'colour'; it has radius, label, more"),
        ({"radius": "1"}, "circle: radius is '1', expected float"),
        ({"radius": True}, "circle: radius is True, expected float"),
        ({"radius": float("nan")}, "circle: radius is nan, which is not JSON"),
        ({"radius": 1, "label": 2}, "circle: label is 2, expected str"),
        ({"radius": 1, "more": [OBJECT]}, "which is not JSON"),
        ({"radius": 10**5000}, "circle: radius is a number of more than "),
    ],
)
def test_wrong_parameters_are_refused_before_anything_is_created(parameters, wrong, home):
    with pytest.raises(FunctionError) as error:
        circle.run(**parameters)
    assert wrong in str(error.value)
    assert not home.exists()


CELLS = (
    "from tfsteps import train_function\nN = 1\ndef helper(): return N",
    """
@train_function
def fit(n: int = N, *, m: int = N * 10) -> list:
    return [n, m, N, helper(), later()]
""",
    "N = 2\ndef helper(n=N): return -n\ndef later(): return 'later'",
)


def test_names_of_the_module_have_their_present_values_and_defaults_those_of_the_definition(tmp_path):
    scope = {"__name__": "__main__"}
    for number, cell in enumerate(CELLS):
        file = tmp_path / f"cell{number}.py"
        file.write_text(cell)
        exec(compile(cell, file, "exec"), scope)
    (tmp_path / "cell1.py").write_text("\n\n\n@train_function\ndef fit():\n    return 'edited'\n")
    assert shipped(scope["fit"], tmp_path / "run") == scope["fit"]() == [1, 10, 2, -2, "later"]


def test_a_name_that_is_not_defined_when_the_function_runs_is_refused():
    with pytest.raises(FunctionError, match=f"line {line_of(undefined, 1)}: 'get_ipythonn' is not defined"):
        train_function(undefined).run()


def test_a_run_folder_that_cannot_be_used_is_named(home):
    home.write_text("a file")
    with pytest.raises(CommandError, match=r"the run folder cannot be used: .*; set TFSTEPS_HOME"):
        circle.job(radius=1)


def test_no_parameter_is_an_option_of_run():
    *options, _ = [name for name in inspect.signature(type(circle).run).parameters if name != "self"]
    assert (*options,) == RUN_OPTIONS

    with pytest.raises(FunctionError, match="parameter 'namespace' is an option of `run`; give it another name"):
        train_function(takes_namespace)


def test_a_step_of_kubeflow_pipelines(tmp_path):
    @dsl.pipeline(name="circles")
    def circles(radius: float = 2.0):
        circle.kfp(radius=radius, label="a$")

    file = tmp_path / "pipeline.yaml"
    compiler.Compiler().compile(circles, str(file))
    assert lint.lint_messages(file.read_text()) == []
    task = yaml.safe_load(file.read_text())["root"]["dag"]["tasks"]["train"]["inputs"]["parameters"]
    assert task["args"]["runtimeValue"]["constant"] == [
        "--radius={{$.inputs.parameters['pipelinechannel--radius']}}",
        "--label=a$$",
    ]
    assert task["code"]["runtimeValue"]["constant"].startswith(circle.job(radius=1)["code"]["digest"])


def test_a_step_of_argo_workflows():
    with Workflow(generate_name="circles-", entrypoint="main") as workflow, DAG(name="main"):
        task = circle.argo("fit", radius="{{workflow.parameters.radius}}", more=[1, 2])
    values = task.arguments[0]
    assert json.loads(values["args"]) == ["--radius={{workflow.parameters.radius}}", "--more=[1, 2]"]
    assert values["name"] == "circle"
    assert workflow.to_yaml()


def test_a_notebook_magic_is_refused(tmp_path):
    magic = "def f():\n    a = 1\n    get_ipython().run_line_magic('time', 'a')\n"
    (tmp_path / "cells.py").write_text(magic)
    program = (
        "import cells; cells.get_ipython = print; from tfsteps.api import FunctionError, train_function\n"
        "try: train_function(cells.f)\nexcept FunctionError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "cells.py, line 3: it has a magic or a shell command of the notebook" in done.stdout


def uses_names_of_methods_and_wrappers():
    items = [random.random()]
    shuffle(items)
    return wrapped(items)  # noqa: F821  a name of a module that the test makes


def test_an_import_is_of_the_object_itself_not_of_what_it_says_of_itself(monkeypatch):
    package = types.ModuleType("json.tool_of_a_package")
    exec("def other(): pass\ndef wrapped(items): pass\n", vars(package))
    functools.update_wrapper(package.wrapped, package.other)
    monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.setitem(globals(), "wrapped", package.wrapped)
    text = function_source.read(uses_names_of_methods_and_wrappers).text
    assert "from json.tool_of_a_package import wrapped as wrapped\n" in text
    assert "from random import shuffle as shuffle\n" in text


def test_a_parameter_may_be_called_self():
    assert train_function(takes_self).job(self=3)["args"] == ["--self=3"]
    assert train_function(takes_self)(self=3) == 3


def takes_self(self: int):
    return self


def test_options_that_would_be_read_as_something_else_are_refused():
    for options, words in (
        ({"requirements": "pandas"}, r"requirements is 'pandas', expected a list; write \['pandas'\]"),
        ({"metrics": "loss"}, "metrics is 'loss', expected a list"),
        ({"spec": {"command": ["x"]}}, "spec has 'command', which train_function sets; remove it"),
    ):
        with pytest.raises(FunctionError, match=words):
            train_function(**options)(square_of)


def square_of(n: int) -> int:
    return n * n
