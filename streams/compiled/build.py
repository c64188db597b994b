"""Compiles the kernel and what is around it with mypyc: `python -m ganger.streams.compiled.build`.

Needs mypy and setuptools (requirements-dev.lock), a C compiler and Python's headers. Without them
the kernel is interpreted: it decides the same and is slower. What is compiled already is kept.
"""

import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from hashlib import file_digest
from io import StringIO
from pathlib import Path
from shutil import copyfile
from time import time

from mypyc.build import mypycify
from setuptools import Distribution, Extension

from ganger.streams.compiled.finder import (
    AROUND,
    GROUP,
    INTERPRETED,
    LIBRARY,
    MANIFEST,
    MODULES,
    ROOT,
    SUFFIX,
    fingerprint,
    found,
    is_preferred,
    listed,
    sources,
)

REQUIRED = "GANGER_REQUIRE_COMPILED"
"""The environment variable that, if it is 1, makes an error of what stands in the way."""

_BUILD_SECONDS_MAX = 3600
_TROUBLE_CHARS_MAX = 600

# Modules of the kernel that stay interpreted, for the reason beside each; `step` needs none.
EXCEPT = (
    "invariants",  # compiled classes cannot derive from AssertionError
    "snapshot",  # msgspec reads the types of fields, which compiled classes do not keep
)


def obstacle() -> str:
    """What is missing here to compile anything, with the remedy; empty if nothing is."""
    words = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    compiler = words[0] if words else ""
    if shutil.which(compiler) is None:
        return f"there is no C compiler {compiler!r}: install gcc, or name another in CC"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        return f"there is no {header}: install Python's headers (python3-dev or the like)"
    return ""


def compiled_sources() -> list[Path]:
    """The modules that are compiled, relative to `ROOT`."""
    kernel = Path("streams", "kernel")
    left = {kernel / f"{name}.py" for name in EXCEPT}
    around = {Path(path) for path in AROUND}
    modules = (path.relative_to(ROOT) for path in sources() if path.name != "__init__.py")
    return [
        path
        for path in modules
        if path in around or (path.is_relative_to(kernel) and path not in left)
    ]


def build() -> None:
    """Puts compiled modules beside those that are there, or raises and changes nothing.

    Raises:
        ValueError: With what mypyc finds wrong with the sources, or if the compiler made nothing.
        Exception: Whatever the compiler and the file system raise.
    """
    with tempfile.TemporaryDirectory(prefix="ganger-compile-") as name:
        work = Path(name)
        for path in sources():
            copy = work / "ganger" / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copyfile(path, copy)
        made_from = fingerprint(work / "ganger")  # of the copy: an edit meanwhile is not in it
        with _inside(work):
            _compile(work)
        made = work / "made"
        made.mkdir()
        for file in (work / "library").rglob(f"*{SUFFIX}"):
            copyfile(file, made / ".".join(file.relative_to(work / "library").parts))
        _describe(made)
        _put_in_place(made, MODULES / made_from)


def is_whole(folder: Path) -> bool:
    """Whether all modules that a folder should have are there, byte by byte."""
    try:
        return all(_digest(path) == digest for path, _, digest in listed(folder))
    except (OSError, ValueError):
        return False


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _describe(made: Path) -> None:
    """Writes the manifest of a folder that has every module it should have."""
    modules = [".".join(("ganger", *path.with_suffix("").parts)) for path in compiled_sources()]
    lines = []
    for module in (*modules, LIBRARY):
        path = made / f"{module}{SUFFIX}"
        if not path.is_file() or not path.stat().st_size:
            raise ValueError(f"the compiler reported success and made no {path.name}")
        lines.append(f"{path.stat().st_size} {_digest(path)} {path.name}\n")
    (made / MANIFEST).write_text("".join(lines), encoding="ascii")


@contextmanager
def _inside(work: Path) -> Iterator[None]:
    """The working directory for a while: mypyc takes the names of modules from relative paths."""
    before = Path.cwd()
    os.chdir(work)
    try:
        yield
    finally:
        os.chdir(before)


def _compile(work: Path) -> None:
    distribution = Distribution({"name": "ganger", "ext_modules": _extensions()})
    command = distribution.get_command_obj("build_ext")
    command.build_lib = str(work / "library")
    command.build_temp = str(work / "objects")
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()


def _extensions() -> list[Extension]:
    """The modules as C.

    -O1 takes two thirds of the time of -O2 for code as fast, and a file for each module a fraction
    of what one for all takes.
    """
    flags = ("--config-file=", "--explicit-package-bases", "--namespace-packages")
    files = [str(Path("ganger") / path) for path in compiled_sources()]
    said = StringIO()  # remarks on code that is slower than it could be, and errors
    try:
        with redirect_stdout(said):
            return mypycify(
                [*flags, *files],
                opt_level="1",
                debug_level="0",
                multi_file=True,
                group_name=GROUP,
            )
    except SystemExit as error:
        raise ValueError(f"mypyc: {said.getvalue().strip()}") from error


def _put_in_place(made: Path, folder: Path) -> None:
    """Writes a copy and renames it, so that a full disk, a kill or another build that ends now
    leave a whole folder or none. Those of other sources are removed then.
    """
    new = folder.with_name(f"{folder.name}.{os.getpid()}.new")
    try:
        shutil.copytree(made, new)
        for path in (*new.iterdir(), new):
            _sync(path)
        if not is_whole(folder):  # else another build was quicker
            if folder.exists():
                folder.rename(new.with_suffix(".old"))
            new.rename(folder)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        if not is_whole(folder):
            raise
    _sync(folder.parent)
    for path in folder.parent.iterdir():
        is_being_made = path.suffix == ".new" and time() - path.stat().st_mtime < _BUILD_SECONDS_MAX
        if path != folder and (path == new or not is_being_made):
            shutil.rmtree(path, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def main() -> int:
    """Exit code 1 if the kernel is not compiled though `REQUIRED` says so, else 0."""
    trouble = obstacle() if is_preferred() else f"{INTERPRETED}=1 asks for the sources"
    if is_preferred() and is_whole(MODULES / fingerprint()):
        return 0
    if not trouble:
        print("compiling the kernel: some minutes, once and after each edit of it", flush=True)
        try:
            build()
            if found():
                return 0
            trouble = "its sources were edited meanwhile: compile them again"
        except Exception as error:
            trouble = f"{type(error).__name__}: {error}"[:_TROUBLE_CHARS_MAX]
    print(f"*** THE KERNEL IS INTERPRETED, AT HALF THE SPEED: {trouble} ***", file=sys.stderr)
    if is_preferred():
        print(f"{INTERPRETED}=1 in the environment does without asking.", file=sys.stderr)
    return int(os.environ.get(REQUIRED) == "1")


if __name__ == "__main__":
    sys.exit(main())
