"""Executes the notebook of the documentation in a kernel, as Jupyter does."""

import collections
import pathlib

import nbformat
from nbclient import NotebookClient

NOTEBOOK = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "notebook.ipynb"


class _Client(NotebookClient):
    """Keeps each page that a cell shows, also those that a later one replaces."""

    def __init__(self, notebook, **options):
        super().__init__(notebook, **options)
        self.live = collections.defaultdict(list)

    def process_message(self, message, cell, cell_index):
        """Keep the page of a message."""
        if message["msg_type"] in ("display_data", "update_display_data"):
            self.live[cell.id].append(message["content"]["data"].get("text/html", ""))
        return super().process_message(message, cell, cell_index)


def read(path):
    """Return a valid notebook."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def executed(monkeypatch, tmp_path, **parameters):
    """Execute all cells with other values of the parameters.

    Returns:
        The value of each cell as data by MIME type, and the pages that each cell has shown, both by the cell's id.
    """
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = read(NOTEBOOK)
    (cell,) = (cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ()))
    cell.source += "".join(f"\n{name} = {value!r}" for name, value in parameters.items())
    client = _Client(notebook, timeout=400, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    values = {
        cell.id: output.data
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "execute_result"
    }
    return values, client.live
