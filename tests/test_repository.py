"""The files that a contributor meets first: hooks, forms, and the changelog."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.check_files import complaint

yaml: Any = pytest.importorskip("yaml", reason="PyYAML comes with the extra docs")

ROOT = Path(__file__).parent.parent
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("the sources are not a git checkout")
    return [path for path in done.stdout.splitlines() if (ROOT / path).is_file() and not (ROOT / path).is_symlink()]


def test_no_hook_is_downloaded() -> None:
    assert [repository["repo"] for repository in HOOKS] == ["local"]


@pytest.mark.parametrize("hook", HOOKS[0]["hooks"], ids=lambda hook: hook["id"])
def test_hooks_pass(hook: dict[str, Any]) -> None:
    """Each hook runs on the files of the repository, as ``pre-commit run --all-files`` runs it."""
    program, *arguments = shlex.split(hook["entry"])
    if not (ROOT / program).exists():
        pytest.skip(f"there is no {program}; make lint sets it up")
    files = [path for path in tracked() if path.endswith(".py") or "python" not in hook.get("types", ())]
    done = subprocess.run([program, *arguments, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("content", "is_right"), [("", True), ("a\n", True), ("a", False), ("a\n\n", False)])
def test_ends_of_files(content: str, is_right: bool, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(content)
    assert (complaint("--ends", path) is None) == is_right and complaint("--sizes", path) is None
    path.write_text("a" * 600_000)
    assert complaint("--sizes", path) == "more than 500 kB"


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_forms(name: str) -> None:
    form = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text(encoding="utf-8"))
    assert form.keys() >= {"name", "description", "body"}
    assert all(item["attributes"]["label"] and re.fullmatch(r"\w+", item["id"]) for item in form["body"])


def test_the_changelog_begins_with_what_is_not_released() -> None:
    headings = re.findall(r"^#+ (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[:3] == ["Changelog", "Unreleased", "Added"]
