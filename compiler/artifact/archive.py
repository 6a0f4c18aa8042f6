"""The file format of compiled programs: IR text, machine code, weights, and a manifest with checksums.

An artifact is a folder, or a zip file with the same members:

    program.mlir          the IR, with locations
    weights.safetensors   parameters, buffers and constants, if the plan has any
    kernels.o             machine code of the kernels, if there is any; that of nested modules is in kernels.1.o, ...
    program.py            the host program as Python text, if text can represent it
    manifest.json         versions, a description of the members, their SHA-256, and the SHA-256 of the other manifest entries

Saved plans are folders or zip files; cache entries are zip files. Reading JSON, IR text and safetensors only reads data: it
imports, unpickles and calls nothing. Machine code and Python are executable; they are read only on request.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from fxc.errors import PlanFileError
from fxc.runtime.host_program import KernelCode
from fxc.runtime.program_text import HostText

FORMAT, VERSION = "fxc-plan", 8
MANIFEST, PROGRAM, WEIGHTS, HOST = "manifest.json", "program.mlir", "weights.safetensors", "program.py"
_MEMBER = re.compile(r"program\.mlir|weights\.safetensors|program\.py|kernels(\.[1-9][0-9]*)?\.o")
_PACKED = (PROGRAM, HOST)
"""Members that are compressed in a zip file, to about a tenth of their size."""
_MAX_MANIFEST = 64 << 20
Content = TypeVar("Content", bytes, Path)
AGAIN = "compile the model again and save the plan"


@dataclass(frozen=True)
class Artifact:
    """The content of an artifact, weights apart.

    ``ir`` is text. ``kernels`` is machine code by module name; the program itself has the empty name. ``host`` is the host
    program that calls these kernels. ``facts`` are further manifest entries.
    """

    ir: str
    kernels: Mapping[str, KernelCode] = field(default_factory=dict[str, KernelCode])
    host: HostText | None = None
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def write(self, path: Path, weights: Callable[[Path], None] | None = None) -> None:
        """Write a folder, or a zip file if ``path`` ends in ``.zip``, including the file that ``weights`` writes.

        Members are written beside ``path`` and then moved, the manifest last, so that an incomplete plan is never read. A
        link stays one, and what it names is written.
        """
        path = path.resolve()
        single = path.suffix == ".zip"
        (path.parent if single else path).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
            if weights is not None:
                weights(Path(scratch) / WEIGHTS)
            members = self._members(None if weights is None else Path(scratch) / WEIGHTS)
            if single:
                _zip(members, Path(scratch) / path.name)
                os.replace(Path(scratch) / path.name, path)
                return
            (path / MANIFEST).unlink(missing_ok=True)
            for name, content in members.items():
                if isinstance(content, bytes):
                    (Path(scratch) / name).write_bytes(content)
                os.replace(Path(scratch) / name, path / name)
            for old in path.iterdir():
                if _MEMBER.fullmatch(old.name) and old.name not in members:
                    old.unlink()

    def packed(self) -> bytes:
        """The artifact as the content of a zip file."""
        buffer = io.BytesIO()
        _zip(self._members(None), buffer)
        return buffer.getvalue()

    def _members(self, weights: Path | None) -> dict[str, bytes | Path]:
        members: dict[str, bytes | Path] = {PROGRAM: self.ir.encode()}
        if weights is not None:
            members[WEIGHTS] = weights
        members |= {_kernels(i): code.code for i, code in enumerate(self.kernels.values())}
        if self.host is not None:
            members[HOST] = self.host.text.encode()
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "versions": _versions(),
            "files": {name: {"sha256": sha256(content), "bytes": _size(content)} for name, content in members.items()},
            "kernels": [{"of": name, "key": code.key, "names": list(code.names)} for name, code in self.kernels.items()],
            "host": None if self.host is None else {"features": self.host.features, "entry": self.host.entry},
            **self.facts,
        }
        manifest["sha256"] = self_hash(manifest)
        members[MANIFEST] = (json.dumps(manifest, indent=1) + "\n").encode()
        return members


class Reader:
    """Reads an artifact, which messages call ``name``.

    Each member is verified when it is read; PlanFileError if it is damaged.
    """

    def __init__(self, name: str | Path, source: Path | zipfile.Path, scratch: str = "") -> None:
        self.name, self._source, self._scratch = name, source, scratch
        self.manifest = self._manifest()
        saved = self.field("versions", dict)
        for package, here in _versions().items():  # operators, their schemas and the text may differ in another release
            there = str(saved.get(package))
            if _release(there) != _release(here):
                raise PlanFileError(f"{name} was saved under {package} {there}, but this is {package} {here}", hint=AGAIN)
        self.files = self.field("files", dict)
        if PROGRAM not in self.files or not all(map(_MEMBER.fullmatch, self.files)):
            raise PlanFileError(f"{name} names other files than a plan has", hint=AGAIN)

    def field(self, name: str, kind: type) -> Any:
        """An entry of the manifest."""
        value = self.manifest.get(name)
        if not isinstance(value, kind):
            raise PlanFileError(f"the manifest's entry {name!r} is missing or wrong", hint=AGAIN)
        return value

    def text(self, name: str) -> str:
        try:
            return self.data(name).decode()
        except UnicodeDecodeError as error:
            raise PlanFileError(f"{self.name} is damaged: {name} is not text", hint=AGAIN) from error

    def data(self, name: str) -> bytes:
        return self._checked(name, self._read(name, self._bytes(name)))

    def file(self, name: str) -> Path:
        """The member as a file, which exists while the artifact is open."""
        self._bytes(name)
        source = self._source
        with _zip_errors(self.name):
            path = source / name if isinstance(source, Path) else Path(source.root.extract(name, self._scratch))
        return self._checked(name, path)

    def kernels(self) -> dict[str, KernelCode]:
        """The machine code of the artifact."""
        listed = [(each["of"], each["key"], tuple(map(str, each["names"]))) for each in self.field("kernels", list)]
        return {of: KernelCode(self.data(_kernels(i)), key, names) for i, (of, key, names) in enumerate(listed)}

    def host(self) -> HostText:
        """The host program that calls the machine code."""
        facts = self.field("host", dict)
        return HostText(self.text(HOST), facts["features"], facts["entry"])

    def _manifest(self) -> dict[str, Any]:
        if not (self._source / MANIFEST).is_file():
            raise PlanFileError(f"{self.name} is no plan: it has no {MANIFEST}", hint=AGAIN)
        data = self._read(MANIFEST, _MAX_MANIFEST)
        if len(data) > _MAX_MANIFEST:
            raise PlanFileError(f"{self.name} is no plan: its {MANIFEST} is too large", hint=AGAIN)
        try:
            found = json.loads(data.decode())
        except (ValueError, RecursionError) as error:
            raise PlanFileError(f"{self.name} has a damaged {MANIFEST}: {error}", hint=AGAIN) from error
        manifest = cast(dict[str, Any], found) if isinstance(found, dict) else {}
        if manifest.get("format") != FORMAT:
            raise PlanFileError(f"{self.name} is no plan: its {MANIFEST} is not one of a plan", hint=AGAIN)
        if (there := manifest.get("version")) != VERSION:
            message = f"{self.name} has format version {there}, but this fxc reads version {VERSION}"
            raise PlanFileError(message, hint=AGAIN)
        if manifest.get("sha256") != self_hash(manifest):
            raise PlanFileError(f"{self.name} has a damaged {MANIFEST}: its checksum is wrong", hint=AGAIN)
        return manifest

    def _read(self, name: str, size: int) -> bytes:
        """The first ``size`` + 1 bytes of a member, so that a larger member is detected."""
        with _zip_errors(self.name), (self._source / name).open("rb") as file:
            return file.read(size + 1)

    def _bytes(self, name: str) -> int:
        """The size of a member according to the manifest. PlanFileError if the member is missing."""
        match self.files.get(name):
            case {"bytes": int(size)} if (self._source / name).is_file():
                return size
            case {"bytes": int()}:
                raise PlanFileError(f"{self.name} is incomplete: {name} is missing", hint="keep the files of a plan together")
            case _:
                raise PlanFileError(f"{self.name} has a manifest with wrong entries", hint=AGAIN)

    def _checked(self, name: str, content: Content) -> Content:
        facts, size = self.files[name], _size(content)
        if size != facts["bytes"]:
            raise PlanFileError(f"{self.name} is damaged: {name} has {size} bytes instead of {facts['bytes']}", hint=AGAIN)
        if sha256(content) != facts.get("sha256"):
            raise PlanFileError(f"{self.name} is damaged: {name} is not the file that was saved", hint=AGAIN)
        return content


@contextmanager
def opened(path: Path) -> Generator[Reader, None, None]:
    """Open the artifact in a folder or zip file. PlanFileError if it is not an artifact, or if a member is damaged."""
    if path.is_dir():
        yield Reader(path, path)
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch, path.open("rb") as file:
        yield unpacked(path, file, scratch)


def unpacked(name: str | Path, file: Any, scratch: str = "") -> Reader:
    """Open the artifact in a zip file or a stream with the content of one."""
    with _zip_errors(name):
        archive = zipfile.ZipFile(file)
        infos = archive.infolist()
        packed = {info.filename for info in infos if info.compress_type != zipfile.ZIP_STORED}
        if not packed <= set(_PACKED) or len(infos) != len(set(archive.namelist())):
            raise PlanFileError(f"{name} is a zip file, but not one that fxc wrote", hint=AGAIN)
        return Reader(name, zipfile.Path(archive), scratch)


@contextmanager
def _zip_errors(name: str | Path) -> Generator[None, None, None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise PlanFileError(f"{name} is damaged, or no zip file: {error}", hint=AGAIN) from error


def _zip(members: Mapping[str, bytes | Path], target: Path | io.BytesIO) -> None:
    """Write a zip file without timestamps, so that equal artifacts are equal files."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            if isinstance(content, bytes):
                archive.writestr(info, content, zipfile.ZIP_DEFLATED if name in _PACKED else zipfile.ZIP_STORED, 1)
                continue
            with archive.open(info, "w", force_zip64=True) as out, content.open("rb") as source:
                while chunk := source.read(1 << 20):
                    out.write(chunk)


def _kernels(index: int) -> str:
    return f"kernels.{index}.o" if index else "kernels.o"


@cache
def _versions() -> Mapping[str, str]:
    return {"fxc": version("fxc"), "torch": str(torch.__version__), "xdsl": version("xdsl")}


def _release(text: str) -> list[str]:
    return text.split("+")[0].split(".")[:2]


def self_hash(manifest: Mapping[str, Any]) -> str:
    """The checksum of a manifest without its checksum entry."""
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    return sha256(json.dumps(rest, sort_keys=True).encode())


def sha256(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size(content: bytes | Path) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size
