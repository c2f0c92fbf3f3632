"""Compiles functions as pipelines, by the real SDK."""

import functools

from kfp import compiler, dsl


def compiled(function, folder):
    """Return the YAML of the pipeline that `function` defines; what it returns is no output."""

    @functools.wraps(function)
    def define(*args, **kwargs):
        function(*args, **kwargs)

    return compiled_component(dsl.pipeline(name="p")(define), folder)


def compiled_component(component, folder):
    """Return the YAML of a pipeline or component."""
    file = folder / "compiled.yaml"
    compiler.Compiler().compile(component, str(file))
    return file.read_text()
