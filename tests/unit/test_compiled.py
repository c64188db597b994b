"""Machine code of the kernel is taken where it was made from the very sources that are there."""

import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from ganger.streams.compiled import build
from ganger.streams.compiled.build import compiled_sources
from ganger.streams.compiled.finder import (
    AROUND,
    INTERPRETED,
    KERNEL,
    LIBRARY,
    MANIFEST,
    SUFFIX,
    CompiledKernel,
    fingerprint,
    found,
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
    _make(tmp_path)
    return tmp_path


def _make(root: Path) -> Path:
    """Machine code that was made from the sources under `root` as they are; its folder."""
    folder = root / "made" / fingerprint(root)
    folder.mkdir(parents=True)
    lines = []
    for module in (STEP, ENGINE, LIBRARY):
        path = folder / f"{module}{SUFFIX}"
        path.write_text(f"code of {module}\n")
        digest = sha256(path.read_bytes()).hexdigest()
        lines.append(f"{path.stat().st_size} {digest} {path.name}\n")
    (folder / MANIFEST).write_text("".join(lines))
    return folder


@pytest.fixture(autouse=True)
def _preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INTERPRETED, raising=False)
    monkeypatch.delenv(build.REQUIRED, raising=False)


def _origin(root: Path, module: str) -> str | None:
    found = CompiledKernel(root / "made", root).find_spec(module, None)
    return None if found is None else found.origin


@pytest.mark.parametrize("module", [STEP, ENGINE, LIBRARY])
def test_modules_of_current_machine_code_are_found(root: Path, module: str) -> None:
    folder = root / "made" / fingerprint(root)
    assert _origin(root, module) == str(folder / f"{module}{SUFFIX}")


@pytest.mark.parametrize("module", ["json", "ganger.schemas.codec", KERNEL, f"{KERNEL}.snapshot"])
def test_whatever_else_is_left_to_others(root: Path, module: str) -> None:
    assert _origin(root, module) is None


@pytest.mark.parametrize("name", SOURCES)
def test_after_an_edit_sources_count(root: Path, name: str) -> None:
    text = (root / name).read_bytes()
    (root / name).write_bytes(text + b" ")
    assert not found(root / "made", root) and _origin(root, STEP) is None
    (root / name).write_bytes(text)
    assert found(root / "made", root) and _origin(root, STEP) is not None


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


def _lose(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _garble(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


def _hide(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("name", [MANIFEST, f"{LIBRARY}{SUFFIX}", f"{ENGINE}{SUFFIX}"])
@pytest.mark.parametrize("harm", [_lose, _empty, _garble, _hide])
def test_sources_count_where_machine_code_is_not_whole(
    root: Path, name: str, harm: Callable[[Path], None]
) -> None:
    folder = root / "made" / fingerprint(root)
    assert build.is_whole(folder)
    harm(folder / name)
    assert not found(root / "made", root) and _origin(root, STEP) is None
    assert not build.is_whole(folder)  # so that it is made again


def test_machine_code_of_the_right_size_is_made_again_if_it_is_wrong(root: Path) -> None:
    path = root / "made" / fingerprint(root) / f"{STEP}{SUFFIX}"
    path.write_bytes(bytes(path.stat().st_size))
    assert not build.is_whole(path.parent)


def test_sources_count_where_nothing_was_compiled(root: Path) -> None:
    shutil.rmtree(root / "made")
    assert _origin(root, STEP) is None
    (root / "made").touch()
    assert _origin(root, STEP) is None


def test_a_folder_or_a_lost_link_among_the_sources_is_no_source(root: Path) -> None:
    (root / "streams/kernel/old.py").mkdir()
    (root / "streams/kernel/.#step.py").symlink_to("nowhere")
    assert _origin(root, STEP) is not None


# ---- building ------------------------------------------------------------------------------------


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where builds put what a compiler made that writes the name of each module."""

    def compile_names(work: Path) -> None:
        for path in [*compiled_sources(), Path(f"{LIBRARY}.py")]:
            is_library = path.name == f"{LIBRARY}.py"
            name = path if is_library else "ganger" / path
            file = (work / "library" / name).with_suffix(SUFFIX)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(str(path))

    monkeypatch.setattr(build, "_compile", compile_names)
    monkeypatch.setattr(build, "MODULES", tmp_path / "modules")
    monkeypatch.setattr(build, "found", lambda: found(tmp_path / "modules"))
    return tmp_path / "modules"


def test_a_build_makes_all_modules_of_the_sources_that_are_there(modules: Path) -> None:
    (modules / "of-other-sources").mkdir(parents=True)
    (modules / "1.2.new").mkdir()  # of a build that goes on
    build.build()
    names = found(modules)
    assert f"{KERNEL}.step" in names and ENGINE in names and LIBRARY in names
    assert sorted(path.name for path in modules.iterdir()) == ["1.2.new", fingerprint()]


def test_what_was_edited_while_it_was_copied_is_not_taken_for_what_is_there(
    modules: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copyfile = build.copyfile

    def copy(source: Path, target: Path) -> None:
        copyfile(source, target)
        if source.name == "step.py":
            target.write_bytes(target.read_bytes() + b"# edited\n")

    monkeypatch.setattr(build, "copyfile", copy)
    monkeypatch.setenv(build.REQUIRED, "1")
    assert build.main() == 1
    assert "edited meanwhile" in capsys.readouterr().err
    assert len(list(modules.iterdir())) == 1 and not found(modules)


def test_damaged_machine_code_is_made_again(modules: Path) -> None:
    assert build.main() == 0
    path = found(modules)[ENGINE]
    path.write_bytes(b"")
    assert build.main() == 0 and found(modules)[ENGINE].stat().st_size
    assert [path.name for path in modules.iterdir()] == [fingerprint()]


def test_a_build_that_ends_when_another_has_leaves_the_others_work(modules: Path) -> None:
    build.build()
    before = found(modules)[ENGINE].stat().st_ino
    build.build()
    assert found(modules)[ENGINE].stat().st_ino == before
    assert [path.name for path in modules.iterdir()] == [fingerprint()]


@pytest.mark.parametrize("is_required", [False, True])
def test_a_compiler_that_makes_nothing_has_failed(
    is_required: bool,
    modules: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(build, "_compile", lambda work: (work / "library").mkdir())
    monkeypatch.setenv(build.REQUIRED, str(int(is_required)))
    assert build.main() == int(is_required)
    assert "made no " in capsys.readouterr().err
    assert not found(modules)


def test_a_full_disk_leaves_nothing_behind(
    modules: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(build, "_sync", full)
    assert build.main() == 0
    assert "No space left on device" in capsys.readouterr().err
    assert list(modules.iterdir()) == []


@pytest.mark.parametrize("compiler", ["  ", "no-such-compiler", "/"])
def test_a_compiler_that_is_none_is_named(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", compiler)
    assert "there is no C compiler" in build.obstacle()


def test_who_asks_for_the_sources_does_not_have_them_compiled(
    modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(INTERPRETED, "1")
    assert build.main() == 0
    monkeypatch.setenv(build.REQUIRED, "1")
    assert build.main() == 1
    assert not modules.exists()


def test_what_stays_interpreted_is_named_as_it_is() -> None:
    names = {path.as_posix() for path in compiled_sources()}
    assert "streams/kernel/step.py" in names and "streams/kernel/nodes/trial.py" in names
    assert names.issuperset(AROUND)
    assert len(names) > 100
    assert not {name for name in names if "snapshot" in name or "schemas" in name}
