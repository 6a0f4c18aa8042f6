"""Object files on disk, shared by processes: an entry is a file named by a hash of all that it depends on.

An entry is written beside its place and moved there, so no process ever reads half of one; it starts with a checksum, so one
that is damaged is as good as missing. A disk that is full or read-only costs speed, never results.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

_CHECKSUM_BYTES = 32


@dataclass(frozen=True)
class ObjectCache:
    """Entries below ``folder``, which is made when it is needed."""

    folder: Path

    def get(self, key: str) -> bytes | None:
        """The entry, or None where there is none that is whole."""
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        checksum, data = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
        return data if hashlib.sha256(data).digest() == checksum else None

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(data).digest() + data)
                os.replace(temporary, path)
            except OSError:
                os.unlink(temporary)
                raise

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key[2:]}.o"


def cache_key(*parts: str) -> str:
    """Of texts, in order; where one ends and the next starts counts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def default_cache_folder() -> Path:
    """``FXC_CACHE_DIR``, else ``fxc`` in the user's cache folder; for a user without a home, one in which nothing can be."""
    if folder := os.environ.get("FXC_CACHE_DIR"):
        return Path(folder)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fxc"
    except RuntimeError:  # no HOME, and a number that no list of users has
        return Path(os.devnull) / "fxc"
