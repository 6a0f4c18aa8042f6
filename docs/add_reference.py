"""A hook of MkDocs: add the generated reference pages to the site, and the notebook to the page of its tutorial."""

import json
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from fxc.tools.reference_pages import pages

NOTEBOOK = Path(__file__).parent.parent / "examples" / "graph_optimizer.ipynb"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    if page.file.src_uri != "tutorials/graph-optimizer.md":
        return markdown
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    cells[0]["source"] = cells[0]["source"][1:]  # without the title
    return "\n\n".join([markdown, *map(_cell, cells)])


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source.replace("../docs/tutorials/", "")
    printed = "".join("".join(output.get("text", "")) for output in cell["outputs"])
    return f"```python\n{source}\n```" + (f"\n\n```text\n{printed}\n```" if printed else "")
