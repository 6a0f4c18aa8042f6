"""A cache of object files on disk, shared by processes: the file name of an entry is a hash of all its dependencies.

An entry is written to a temporary file and renamed, so no process reads a partial one. It starts with a checksum of its key and
its content, so a damaged entry, and one of another key, counts as missing. A full or read-only disk costs speed, never results.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

from fxc.errors import FallbackWarning

_CHECKSUM_BYTES = 32


@dataclass(frozen=True)
class ObjectCache:
    """Entries below ``folder``, which is created on demand."""

    folder: Path

    def get(self, key: str) -> bytes | None:
        """Return the entry, or None if it is missing or damaged."""
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        checksum, data = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
        if hashlib.sha256(key.encode() + data).digest() == checksum:
            return data
        message = f"a cache entry is damaged or of another key, and what it held is compiled again: {self._path(key)}"
        warnings.warn(message, FallbackWarning, stacklevel=2)
        self._path(key).unlink(missing_ok=True)
        return None

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(key.encode() + data).digest() + data)
                os.replace(temporary, path)
            except OSError:
                os.unlink(temporary)
                raise

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key[2:]}.entry"


def cache_key(*parts: str) -> str:
    """Hash texts, in order, with their boundaries."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def default_cache_folder() -> Path:
    """Return ``FXC_CACHE_DIR``, else ``fxc`` in the user's cache folder; without a home directory, an unusable path."""
    if folder := os.environ.get("FXC_CACHE_DIR"):
        return Path(folder)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fxc"
    except RuntimeError:  # HOME is unset, and the user id has no passwd entry
        return Path(os.devnull) / "fxc"
