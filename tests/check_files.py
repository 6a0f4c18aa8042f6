"""Checks of files before a commit: ``python tests/check_files.py --ends|--sizes FILE...``; exit code 1 where one fails."""

import sys
from pathlib import Path

LARGEST = 500_000


def complaint(check: str, path: Path) -> str | None:
    if check == "--sizes":
        return f"more than {LARGEST // 1000} kB" if path.stat().st_size > LARGEST else None
    data = path.read_bytes()
    if b"\0" in data:
        return None
    return "does not end with one newline" if data and (not data.endswith(b"\n") or data.endswith(b"\n\n")) else None


def main(check: str, paths: list[str]) -> int:
    found = [(path, complaint(check, Path(path))) for path in paths]
    lines = [f"{path}: {text}" for path, text in found if text]
    print("\n".join(lines), end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
