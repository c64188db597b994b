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
from io import StringIO
from pathlib import Path

from mypyc.build import mypycify
from setuptools import Distribution, Extension

from ganger.streams.compiled.finder import (
    AROUND,
    FINGERPRINT,
    FOLDER,
    GROUP,
    INTERPRETED,
    ROOT,
    SUFFIX,
    fingerprint,
    is_current,
    is_preferred,
    sources,
)

REQUIRED = "GANGER_REQUIRE_COMPILED"
"""The environment variable that, if it is 1, makes an error of what stands in the way."""

# Modules of the kernel that stay interpreted, for the reason beside each; `step` needs none.
EXCEPT = (
    "invariants",  # compiled classes cannot derive from AssertionError
    "snapshot",  # msgspec reads the types of fields, which compiled classes do not keep
)


def obstacle() -> str:
    """What is missing here to compile anything, with the remedy; empty if nothing is."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
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
    """Puts compiled modules in the place of those that are there, or raises and changes nothing.

    Raises:
        ValueError: With what mypyc finds wrong with the sources.
        Exception: Whatever the compiler and the file system raise.
    """
    made_from = fingerprint()
    with tempfile.TemporaryDirectory(prefix="ganger-compile-") as name:
        work = Path(name)
        for path in sources():
            copy = work / "ganger" / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        with _inside(work):
            _compile(work)
        made = work / "made"
        made.mkdir()
        for file in (work / "library").rglob(f"*{SUFFIX}"):
            shutil.copyfile(file, made / ".".join(file.relative_to(work / "library").parts))
        (made / FINGERPRINT).write_text(made_from, encoding="ascii")
        _put_in_place(made)


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


def _put_in_place(made: Path) -> None:
    """Copies first, so that a full disk or a kill leaves the old modules or none, never a part."""
    new = FOLDER.with_name(FOLDER.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(made, new)
    shutil.rmtree(FOLDER, ignore_errors=True)
    new.rename(FOLDER)


def main() -> int:
    """Exit code 1 if the kernel is not compiled though `REQUIRED` says so, else 0."""
    if not is_preferred() or is_current():
        return 0
    trouble = obstacle()
    if not trouble:
        print("compiling the kernel: some minutes, once and after each edit of it", flush=True)
        try:
            build()
            return 0
        except Exception as error:
            trouble = f"{type(error).__name__}: {error}"
    print(f"*** THE KERNEL IS INTERPRETED, AT HALF THE SPEED: {trouble} ***", file=sys.stderr)
    print(f"{INTERPRETED}=1 in the environment does without asking.", file=sys.stderr)
    return int(os.environ.get(REQUIRED) == "1")


if __name__ == "__main__":
    sys.exit(main())
