"""The source of a function as a program that needs nothing else of its module; what cannot be shipped is refused."""

import ast
import builtins
import importlib.util
import inspect
import itertools
import json
import pathlib
import site
import symtable
import sys
import sysconfig
import textwrap
import types
import typing
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from tfsteps.console.errors import CommandError
from tfsteps.spec.problems import shown
from tfsteps.systems.expansion import escaped

RUN_OPTIONS = ("on", "system", "context", "namespace", "display")
"""Options of `ShippedFunction.run`, which no parameter of the function may be called."""

_PLAIN = (int, float, str, bool, list, dict)
_FIX = (
    "only functions, imports and JSON constants of the module are shipped: pass it as a parameter, or define it inside"
)


_texts: weakref.WeakKeyDictionary[Callable[..., Any], str] = weakref.WeakKeyDictionary()
"""The source of functions as it was first read: their file may be edited while the program runs."""


class FunctionError(CommandError):
    """A function that cannot be shipped, or a value that is not one of its parameter; names the line."""


class Parameter(msgspec.Struct, frozen=True):
    """A parameter: its type among int, float, str, bool, list and dict; whether it has no default, or None as such."""

    kind: type
    required: bool
    default_none: bool


class FunctionSource(msgspec.Struct, frozen=True):
    """A function that can be shipped.

    Attributes:
        name: Its name.
        text: A module that defines it, with the imports, constants and functions of its module that it uses.
        parameters: Its parameters.
    """

    name: str
    text: str
    parameters: Mapping[str, Parameter]


def read(function: Callable[..., Any], *, complete: bool = True) -> FunctionSource:
    """Return the source of a function, with what its module has now.

    Args:
        function: The function.
        complete: Whether its module has all names; False = names that it uses may be defined later.

    Raises:
        FunctionError: It cannot be shipped; the message has the name and the line.
    """
    return _FunctionReader(function, complete=complete).read()


def words(source: FunctionSource, values: Mapping[str, Any], *, references: bool) -> list[str]:
    """Return parameters as arguments of the program, each `--NAME=VALUE`; text as it is, everything else as JSON.

    Args:
        source: The function.
        values: The parameters. None only where it is the default, for a replica gets text and JSON.
        references: Whether a value may be what a pipeline fills in later.

    Raises:
        FunctionError: A parameter is unknown, missing or of another type.
    """
    if unknown := [name for name in values if name not in source.parameters]:
        known = ", ".join(source.parameters) or "none"
        raise FunctionError(f"{source.name} has no parameter {unknown[0]!r}; it has {known}")
    if nothing := [
        name for name, value in values.items() if value is None and not source.parameters[name].default_none
    ]:
        wrong = f"{source.name}: {nothing[0]} is None, which no argument of a replica can be"
        raise FunctionError(f"{wrong}; leave it out for its default, or make None its default")
    settings = {name: value for name, value in values.items() if value is not None}
    if missing := [
        name for name, parameter in source.parameters.items() if parameter.required and name not in settings
    ]:
        raise FunctionError(f"{source.name} needs the parameter {missing[0]!r}")
    return [f"--{name}={_word(source, name, value, references=references)}" for name, value in settings.items()]


def _word(source: FunctionSource, name: str, value: Any, *, references: bool) -> str:
    if references and "{{" in str(value) and (isinstance(value, str) or not isinstance(value, _PLAIN)):
        return str(value)
    return escaped(_encoded(source, name, value))  # the replica gets it as it is, not with $(NAME) expanded


def _encoded(source: FunctionSource, name: str, value: Any) -> str:
    kind = source.parameters[name].kind
    right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not right and not (kind is float and type(value) is int):
        raise FunctionError(f"{source.name}: {name} is {value!r}, expected {kind.__name__}")
    if kind is str:
        return str(value)
    if not _is_json(value):
        what = shown(value) if isinstance(value, int) else repr(value)
        raise FunctionError(f"{source.name}: {name} is {what}, which is not JSON; pass numbers, text, lists, mappings")
    return json.dumps(value)


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


def _is_literal(value: Any) -> bool:
    """Tell whether the text of a value is the value: not that of infinity, of NumPy's numbers or of enumerations."""
    try:
        return type(ast.literal_eval(repr(value))) is type(value)
    except (SyntaxError, ValueError):
        return False


def _submodules(node: ast.AST, name: str, module: types.ModuleType) -> Iterator[str]:
    """Yield the modules below a module that code reaches through it: `import urllib` alone has no `urllib.request`."""
    for inner in ast.walk(node):
        path = ast.unparse(inner).split(".") if isinstance(inner, ast.Attribute) else []
        below = name
        part: object = module
        for word in path[1:] if path[:1] == [name] == [module.__name__] else []:
            part, below = vars(part).get(word), f"{below}.{word}"
            if not isinstance(part, types.ModuleType) or part.__name__ != below:
                break
            yield below


class _FunctionReader:
    """Reads a function and the functions of its module that it uses.

    Attributes:
        function: The function to read now.
        complete: Whether a name that the module does not have is an error.
        shipped: The name of the function that is shipped; that of a function it uses differs.
        header: Imports and constants, by the name in the module.
        bodies: Source by the name in the module, each after what its default values may use. None = is being read.
    """

    def __init__(
        self, function: Callable[..., Any], user: "_FunctionReader | None" = None, *, complete: bool = True
    ) -> None:
        self.function = function
        self.complete: bool = user.complete if user else complete
        self.name = getattr(function, "__name__", repr(function))
        self.shipped: str = user.shipped if user else self.name
        self.first = 0
        self.header: dict[str, str] = user.header if user else {}
        self.bodies: dict[str, str | None] = user.bodies if user else {}

    @property
    def code(self) -> types.CodeType:
        """The code of the function that the source is of: not of what a decorator has put around it."""
        code: types.CodeType = inspect.unwrap(self.function).__code__
        return code

    def error(self, line: int, wrong: str) -> FunctionError:
        """Return an error at a line of the function's source, 1 = its first."""
        file = pathlib.Path(self.code.co_filename).name
        inside = "" if self.name == self.shipped else f", in {self.name}"
        return FunctionError(f"{self.shipped} cannot be shipped: {file}, line {self.first + line}{inside}: {wrong}")

    def read(self) -> FunctionSource:
        function = self.function
        if not isinstance(function, types.FunctionType):
            raise FunctionError(f"{self.name} cannot be shipped: it is a {type(function).__name__}, not a function")
        node = self.collect(self.name)
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise self.error(1, "it is a coroutine or a generator; write an ordinary function")
        header = [self.header[name] for name in sorted(self.header)]
        lines = ["from __future__ import annotations", "", *header]
        for body in self.bodies.values():
            lines += ["", "", body or ""]
        return FunctionSource(self.name, "\n".join([*lines, ""]), dict(self._parameters(node)))

    def collect(self, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
        """Add the function, called `name` in its module, and what it uses to what is shipped; return its definition."""
        self.bodies[name] = None
        self.first = self.code.co_firstlineno - 1
        if self.name == "<lambda>":
            raise self.error(1, "it is a lambda, which has no source of its own; write `def`")
        if "." in self.function.__qualname__:
            inside = "another function" if "<locals>" in self.function.__qualname__ else "a class"
            raise self.error(1, f"it is defined in {inside}; define it at the top level of a module or notebook")
        node, text = self._parsed()
        self._check_decorators(node)
        if inspect.unwrap(self.function) is not self.function:
            raise self.error(1, "another function wraps it, which is not shipped; call the function itself")
        if name != self.name and self.function.__globals__.get(self.name, self.function) is not self.function:
            raise self.error(1, f"{self.name!r} is another object of its module now; rename one of them")
        self._add_used(node)
        body = "\n".join([*text.splitlines()[node.lineno - 1 :], *self._defaults(node)])
        del self.bodies[name]  # it comes after what it uses
        self.bodies[name] = body if name == self.name else f"{body}\n\n\n{name} = {self.name}"
        return node

    def _defaults(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
        """Yield lines that set the default values that the function has: those of names may have changed since."""
        for attribute, nodes in (("__defaults__", node.args.defaults), ("__kwdefaults__", node.args.kw_defaults)):
            value = getattr(self.function, attribute)
            inner = itertools.chain.from_iterable(ast.walk(default) for default in nodes if default)
            if any(isinstance(part, ast.Name) for part in inner) and _is_literal(value):
                yield f"{self.name}.{attribute} = {value!r}"

    def _parsed(self) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]:
        missing = "its source is not available; define it in a file or a cell of a notebook"
        try:
            text = _texts.get(self.function) or textwrap.dedent(inspect.getsource(self.function))
        except (OSError, TypeError) as error:
            raise self.error(1, missing) from error
        try:
            node = ast.parse(text).body[0]
        except SyntaxError as error:
            raise self.error(error.lineno or 1, "its source is not plain Python") from error
        # From Python 3.13 on, the lines of a function that `exec` made are looked up in the file that called it.
        functions = ast.FunctionDef | ast.AsyncFunctionDef
        if not isinstance(node, functions) or node.name != self.code.co_name:
            raise self.error(1, missing)
        _texts[self.function] = text
        return node, text

    def _check_decorators(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name != "train_function":
                raise self.error(decorator.lineno, f"its decorator {ast.unparse(called)!r} is not shipped; remove it")

    def _add_used(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Add the imports, constants and functions of the module that the function uses."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import | ast.ImportFrom):
                names = (
                    [alias.name for alias in inner.names]
                    if isinstance(inner, ast.Import)
                    else ["." * inner.level + (inner.module or "")]
                )
                for name in names:
                    self._check_module(name, inner.lineno)
        for name, line in self._globals(node):
            if name in self.bodies:
                continue
            if name not in self.function.__globals__:
                if self.complete and not hasattr(builtins, name):
                    raise self.error(line, f"{name!r} is not defined")
                continue
            value = self.function.__globals__[name]
            if isinstance(value, types.FunctionType) and value.__globals__ is self.function.__globals__:
                _FunctionReader(value, self).collect(name)
            else:
                self.header[name] = self._definition(name, value, line)
                if isinstance(value, types.ModuleType):
                    self.header |= {part: f"import {part}" for part in _submodules(node, name, value)}

    def _globals(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[str, int]]:
        """Return the names of the module that the function and its default values use, each with a line."""
        bare = _WithoutAnnotations().visit(ast.parse(ast.unparse(node)))
        bare.body[0].decorator_list = []
        module = symtable.symtable(ast.unparse(bare), "function", "exec")
        used = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_referenced()}
        pending = module.get_children()
        while pending:
            table = pending.pop()
            pending += table.get_children()
            used |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        lines = {inner.id: inner.lineno for inner in reversed([*ast.walk(node)]) if isinstance(inner, ast.Name)}
        return sorted((name, lines.get(name, 1)) for name in used - {node.name})

    def _definition(self, name: str, value: Any, line: int) -> str:
        if isinstance(value, types.ModuleType):
            self._check_module(value.__name__, line)
            parent, _, last = value.__name__.rpartition(".")
            return f"from {parent} import {last} as {name}" if parent else f"import {value.__name__} as {name}"
        if name == "__file__":
            raise self.error(line, "`__file__` is a path of this machine, whose files are not shipped; pass a path")
        if (_is_json(value) or (isinstance(value, tuple) and _is_json([*value]))) and _is_literal(value):
            return f"{name} = {value!r}"
        if type(value) in _PLAIN:
            raise self.error(line, f"{name!r} is {shown(value)}, which is not plain JSON; {_FIX}")
        if name == "get_ipython":
            raise self.error(line, "it has a magic or a shell command of the notebook; write plain Python")
        module, attribute = self._imported_from(name, value)
        if not module:
            raise self.error(line, f"{name!r} is a {type(value).__name__} of its module; {_FIX}")
        self._check_module(module, line)
        return f"from {module} import {attribute} as {name}"

    def _imported_from(self, name: str, value: Any) -> tuple[str, str]:
        """Return a module that has a value, and the value's name there; two empty texts = only its own module has it.

        What the value says of itself is not enough: a wrapper has the name of what it wraps, and a method that a module
        has as a function, such as `random.shuffle`, has that of its class.
        """
        own_names = (getattr(value, "__qualname__", ""), getattr(value, "__name__", ""))
        names = dict.fromkeys([text for text in own_names if isinstance(text, str)] + [name])
        allowed = {"__main__", self.function.__module__}
        first = getattr(value, "__module__", None)
        others = sorted(sys.modules, key=lambda module: ("._" in f".{module}", len(module), module))  # public first
        for module in [first, *others]:
            if not isinstance(module, str) or module in allowed:
                continue
            for attribute in names:
                there = getattr(sys.modules.get(module), "__dict__", {})  # anything may have been put in its place
                has_it = attribute.isidentifier() and there.get(attribute) is value
                if has_it and (module == first or not _local_file(module)):
                    return module, attribute
        return "", ""

    def _check_module(self, name: str, line: int) -> None:
        """Refuse a module that is a file of this machine, and not of an installed package."""
        if file := _local_file(name):
            raise self.error(line, f"the module {name!r} is {file} of this machine, which is not shipped; {_FIX}")

    def _parameters(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, Parameter]]:
        try:
            hints = typing.get_type_hints(self.function)
        except NameError as error:
            raise self.error(node.lineno, f"the annotation of a parameter is not defined: {error}") from error
        arguments = {argument.arg: argument.lineno for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        for parameter in inspect.signature(self.function).parameters.values():
            line, name = arguments[parameter.name], parameter.name
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise self.error(line, f"parameter {name!r} has no name at a call; write ordinary parameters")
            if name in RUN_OPTIONS:
                raise self.error(line, f"parameter {name!r} is an option of `run`; give it another name")
            if name not in hints:
                raise self.error(line, f"parameter {name!r} has no type; write one of {_NAMES}")
            alternatives = [hint for hint in typing.get_args(hints[name]) if hint is not type(None)]
            optional = typing.get_origin(hints[name]) in (typing.Union, types.UnionType) and len(alternatives) == 1
            hint = alternatives[0] if optional else hints[name]
            kind = typing.get_origin(hint) or hint
            if kind not in _PLAIN:
                raise self.error(line, f"parameter {name!r} has the type {hints[name]}; use one of {_NAMES}")
            if parameter.default is not parameter.empty and not _is_json(parameter.default):
                raise self.error(line, f"the default of {name!r} is {parameter.default!r}, which is not JSON")
            yield name, Parameter(kind, parameter.default is parameter.empty, parameter.default is None)


_NAMES = ", ".join(kind.__name__ for kind in _PLAIN)


class _WithoutAnnotations(ast.NodeTransformer):
    """Removes annotations, which are not evaluated in a replica."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        value = node.value and self.visit(node.value)
        return ast.Assign([node.target], value or ast.Constant(None), lineno=node.lineno)


def _local_file(name: str) -> str:
    """Return what a module is if it is a file of this machine, for messages; empty = of an installed package."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return ""
    try:
        spec = importlib.util.find_spec(top) if top else None
    except (ImportError, ValueError):
        spec = None
    origin = spec and (spec.origin or next(iter(spec.submodule_search_locations or ()), None))
    if top and not (origin and not _installed(origin)):
        return ""
    return f"{origin}, a file" if origin else "a file"


def _installed(origin: str) -> bool:
    if origin in {"built-in", "frozen"}:
        return True
    paths = [
        *map(sysconfig.get_path, ("purelib", "platlib", "stdlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    ]
    return any(pathlib.Path(origin).resolve().is_relative_to(pathlib.Path(path).resolve()) for path in paths)
