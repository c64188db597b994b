"""The repository as files and modules, for the tests that check the repository itself."""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PARTS = ("schemas", "streams", "services", "replay")
"""The top-level folders that are installed as `ganger.<part>`."""

_NOT_OURS = {"build", "dist", "run", "__pycache__"}


@cache
def repository_files() -> tuple[Path, ...]:
    """Every file that is, or would be, under version control: absolute, sorted, no symlinks."""
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        found = {ROOT / name for name in listing.stdout.split("\0") if name}
    else:  # an unpacked archive: everything that is not hidden and was not built
        found = {path for path in ROOT.rglob("*") if _is_ours(path)}
    return tuple(sorted(path for path in found if path.is_file() and not path.is_symlink()))


def _is_ours(path: Path) -> bool:
    folders = path.relative_to(ROOT).parts
    if folders[0].startswith(".") and folders[0] not in (".ci", ".gitignore"):
        return False
    return not any(name in _NOT_OURS or name.endswith(".egg-info") for name in folders)


def python_files(*folders: str) -> tuple[Path, ...]:
    """The Python files below the given top-level folders, sorted."""
    wanted = [ROOT / folder for folder in folders]
    return tuple(
        path
        for path in repository_files()
        if path.suffix == ".py" and any(path.is_relative_to(folder) for folder in wanted)
    )


def module_name(path: Path) -> str:
    """`streams/kernel/step.py` is `streams.kernel.step`; an `__init__.py` is its package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    """Module name without `ganger.` to file, for the four installed parts."""
    return {module_name(path): path for path in python_files(*PARTS)}


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of one file. Raises SyntaxError with the file's name."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def shown(path: Path) -> str:
    """A path as messages show it: relative to the repository."""
    return str(path.relative_to(ROOT))
