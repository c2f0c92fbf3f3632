"""The pipelines that README, docs and the components' READMEs show."""

import contextlib
import io
import pathlib
import re
from dataclasses import dataclass

from hera.workflows import Workflow
from kfp.dsl.graph_component import GraphComponent

ROOT = pathlib.Path(__file__).parents[2]
_FENCE = re.compile(r"^```python(?: [^\n]*)?\n(.*?)^```", re.DOTALL | re.MULTILINE)
_DEFINES = re.compile(r"@dsl\.pipeline|\bWorkflow\(")


@dataclass(frozen=True)
class Example:
    """A whole pipeline that a page shows.

    Attributes:
        page: The page, from the project's folder.
        line: Where the code begins, from 1.
        code: The Python of it.
    """

    page: str
    line: int
    code: str

    def __str__(self):
        return f"{self.page}:{self.line}"

    def pipelines(self):
        """Return the pipelines of Kubeflow that its code defines."""
        return [name for name in self._names() if isinstance(name, GraphComponent)]

    def workflows(self):
        """Return the Workflows of Hera that its code defines."""
        return [name for name in self._names() if isinstance(name, Workflow)]

    def _names(self):
        names = {}
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(self.code, str(self), "exec"), names)
        return list(names.values())


def examples():
    """Return all examples, in the order of their pages."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("components/tfsteps/steps/*/README.md")]
    blocks = []
    for page in sorted(pages):
        for fence in _FENCE.finditer(text := page.read_text("utf-8")):
            if _DEFINES.search(fence[1]):
                line = text.count("\n", 0, fence.start(1)) + 1
                blocks.append(Example(str(page.relative_to(ROOT)), line, fence[1]))
    return blocks
