"""The kernel's machine code, loaded instead of its sources where it was made from just these.

`build` compiles the kernel and the modules around it through which every record goes, whose speed
is else that of the interpreter. The sources stay what counts: after any edit of them they are
interpreted until they are compiled anew.
"""

import os
import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

INTERPRETED = "GANGER_INTERPRETED"
"""The environment variable that, if it is 1, leaves machine code aside."""

KERNEL = "ganger.streams.kernel"

AROUND = (
    "replay/assumptions.py",
    "replay/attempts.py",
    "replay/cell.py",
    "replay/executor.py",
    "replay/gauges.py",
    "replay/workload.py",
    "streams/engine.py",
    "streams/intake.py",
    "streams/structure.py",
)
"""What else is compiled: on the way of every record into the kernel, and of decisions back."""

_AROUND = frozenset(f"ganger.{path.removesuffix('.py').replace('/', '.')}" for path in AROUND)

GROUP = "ganger_kernel"
"""All compiled modules are one library, which stubs by the modules' names load."""

LIBRARY = f"{GROUP}__mypyc"
"""Its module name, as mypyc forms it."""

SUFFIX = EXTENSION_SUFFIXES[0]
"""Of this Python's extension modules on this platform: `.cpython-311-x86_64-linux-gnu.so`."""

_HERE = Path(__file__).resolve().parent

ROOT = _HERE.parents[1]
"""The folder that holds `schemas`, `streams` and `replay`."""

MODULES = _HERE / "modules" / SUFFIX.strip(".").removesuffix(".so")
"""Where compiled modules lie: for each state of the sources a folder by its `fingerprint`."""

MANIFEST = "manifest"
"""In such a folder: a line for each module, the library last, with size, SHA-256 and name of its
file. It tells a folder that lost something from a whole one."""


def sources(root: Path = ROOT) -> tuple[Path, ...]:
    """All files that say what the machine code does, sorted: what is compiled, how, and schemas."""
    parts = (root / "schemas", root / "streams" / "kernel", root / "streams" / "compiled")
    files = [path for part in parts for path in part.rglob("*.py") if path.is_file()]
    return tuple(sorted([*files, *(root / path for path in AROUND if (root / path).exists())]))


def fingerprint(root: Path = ROOT) -> str:
    """SHA-256 over names and contents of the sources, in hex."""
    digest = sha256()
    for path in sources(root):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()


def listed(folder: Path) -> list[tuple[Path, int, str]]:
    """Files that the manifest of a folder names, with size and SHA-256.

    Raises:
        OSError, ValueError: There is no manifest, or none that can be read.
    """
    lines = (folder / MANIFEST).read_text(encoding="ascii").splitlines()
    words = [line.split(" ") for line in lines]
    files = [(folder / name, int(size), digest) for size, digest, name in words]
    if not files or files[-1][0].name != f"{LIBRARY}{SUFFIX}":
        raise ValueError(f"{folder / MANIFEST}: does not end with the library")
    return files


def found(modules: Path = MODULES, root: Path = ROOT) -> dict[str, Path]:
    """Compiled modules of the sources as they are, by name; empty unless all are there in size."""
    try:
        files = listed(modules / fingerprint(root))
        if all(path.stat().st_size == size for path, size, _ in files):
            return {path.name.removesuffix(SUFFIX): path for path, _, _ in files}
    except (OSError, ValueError):
        pass
    return {}


def is_preferred() -> bool:
    """Whether this process takes machine code where it may."""
    return os.environ.get(INTERPRETED) != "1"


def kernel_kind() -> str:
    """How the kernel runs in this process: `compiled` or `interpreted`."""
    return "compiled" if is_preferred() and found() else "interpreted"


class CompiledKernel(MetaPathFinder):
    """Finds compiled modules before their sources are found."""

    def __init__(self, modules: Path = MODULES, root: Path = ROOT) -> None:
        self._modules = modules
        self._root = root
        self._files: dict[str, Path] | None = None  # looked for when the first one is imported

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _AROUND and not fullname.startswith((LIBRARY, f"{KERNEL}.")):
            return None
        if self._files is None:
            self._files = found(self._modules, self._root) if is_preferred() else {}
        file = self._files.get(fullname)
        return None if file is None else spec_from_file_location(fullname, file)


def prefer_compiled() -> None:
    """Lets imports find machine code; it is looked for at the first that could be of it."""
    if not any(isinstance(finder, CompiledKernel) for finder in sys.meta_path):
        sys.meta_path.insert(0, CompiledKernel())
