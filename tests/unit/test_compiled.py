"""Machine code of the kernel is taken where it was made from the very sources that are there."""

from pathlib import Path

import pytest

from ganger.streams.compiled.build import compiled_sources
from ganger.streams.compiled.finder import (
    AROUND,
    FINGERPRINT,
    INTERPRETED,
    KERNEL,
    LIBRARY,
    SUFFIX,
    CompiledKernel,
    fingerprint,
    is_current,
)

STEP = f"{KERNEL}.step"
ENGINE = "ganger.streams.engine"
SOURCES = (
    "schemas/records.py",
    "streams/kernel/step.py",
    "streams/compiled/build.py",
    "streams/engine.py",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Small sources, with machine code that was made from them in `made`."""
    for name in SOURCES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    folder = tmp_path / "made"
    folder.mkdir()
    for module in (STEP, ENGINE, LIBRARY):
        (folder / f"{module}{SUFFIX}").touch()
    (folder / FINGERPRINT).write_text(fingerprint(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def _preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INTERPRETED, raising=False)


def _origin(root: Path, module: str) -> str | None:
    found = CompiledKernel(root / "made", root).find_spec(module, None)
    return None if found is None else found.origin


@pytest.mark.parametrize("module", [STEP, ENGINE, LIBRARY])
def test_modules_of_current_machine_code_are_found(root: Path, module: str) -> None:
    assert _origin(root, module) == str(root / "made" / f"{module}{SUFFIX}")


@pytest.mark.parametrize("module", ["json", "ganger.schemas.codec", KERNEL, f"{KERNEL}.snapshot"])
def test_whatever_else_is_left_to_others(root: Path, module: str) -> None:
    assert _origin(root, module) is None


@pytest.mark.parametrize("name", SOURCES)
def test_after_an_edit_sources_count(root: Path, name: str) -> None:
    text = (root / name).read_bytes()
    (root / name).write_bytes(text + b" ")
    assert not is_current(root / "made", root) and _origin(root, STEP) is None
    (root / name).write_bytes(text)
    assert is_current(root / "made", root) and _origin(root, STEP) is not None


def test_after_a_module_came_went_or_was_renamed_sources_count(root: Path) -> None:
    step = root / "streams/kernel/step.py"
    step.rename(root / "streams/kernel/steps.py")
    assert _origin(root, STEP) is None
    (root / "streams/kernel/steps.py").rename(step)
    (root / "streams/kernel/more.py").touch()
    assert _origin(root, STEP) is None


def test_sources_count_where_asked_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INTERPRETED, "1")
    assert _origin(root, STEP) is None


def test_sources_count_where_nothing_was_compiled(root: Path) -> None:
    (root / "made" / FINGERPRINT).unlink()
    assert _origin(root, STEP) is None


def test_what_stays_interpreted_is_named_as_it_is() -> None:
    names = {path.as_posix() for path in compiled_sources()}
    assert "streams/kernel/step.py" in names and "streams/kernel/nodes/trial.py" in names
    assert names.issuperset(AROUND)
    assert len(names) > 100
    assert not {name for name in names if "snapshot" in name or "schemas" in name}
