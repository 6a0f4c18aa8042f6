"""The notebook of examples/ runs without errors and prints what is committed.

``python -m tests.test_notebook`` runs it and writes its outputs. The tag ``varies`` marks cells whose output depends on the
machine.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

PATH = Path(__file__).parent.parent / "examples" / "graph_optimizer.ipynb"


def executed(folder: Path) -> NotebookNode:
    """The notebook after a run in ``folder``, in a kernel of this Python. CellExecutionError for a cell that fails."""
    notebook = nbformat.read(PATH, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=120, resources=resources, record_timing=False, coalesce_streams=True)
    return client.execute()


def texts(cell: NotebookNode) -> list[tuple[str, str]]:
    """What ``cell`` printed: stream and text."""
    return [(output.get("name", output.output_type), output.get("text", "")) for output in cell.get("outputs", [])]


@pytest.mark.slow
def test_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    committed, found = nbformat.read(PATH, as_version=4), executed(tmp_path)
    for old, new in zip(committed.cells, found.cells, strict=True):
        if "varies" not in old.metadata.get("tags", []):
            assert all(kind == "stdout" for kind, _ in texts(new)), texts(new)
            assert texts(new) == texts(old), old.source


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        nbformat.write(executed(Path(temporary)), PATH)
