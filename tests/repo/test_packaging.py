"""What is built and installed: one import name, and every file that the code reads at run time."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.source_tree import PARTS, ROOT, modules, repository_files

_DATA = (".avsc", ".toml", ".json", ".csv.gz")


def _python(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from an sdist of a copy of the repository, without the network."""
    folder = tmp_path_factory.mktemp("packaging")
    copy, unpacked = folder / "copy", folder / "unpacked"
    for path in repository_files():
        target = copy / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    for part in PARTS:
        (copy / "src" / "ganger" / part).symlink_to(f"../../{part}")
    _build("build_sdist", copy, folder)
    (sdist,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(sdist, unpacked, filter="data")
    (source,) = unpacked.iterdir()
    _build("build_wheel", source, folder)
    (built,) = folder.glob("*.whl")
    return built


def _build(step: str, source: Path, target: Path) -> None:
    code = f"from setuptools.build_meta import {step}; {step}({str(target)!r})"
    done = _python(code, source)
    assert done.returncode == 0, done.stdout + done.stderr


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_folders_are_linked_below_src() -> None:
    for part in PARTS:
        link = ROOT / "src" / "ganger" / part
        assert link.is_symlink()
        assert os.readlink(link) == f"../../{part}"


def test_wheel_holds_every_module_and_data_file(wheel: Path) -> None:
    wanted = {
        f"ganger/{path.relative_to(ROOT)}"
        for part in PARTS
        for path in repository_files()
        if path.is_relative_to(ROOT / part) and path.name.endswith((".py", *_DATA))
    }
    assert wanted - _names(wheel) == set(), "name them in [tool.setuptools.package-data]"


def test_wheel_holds_one_package_and_the_command(wheel: Path) -> None:
    names = _names(wheel)
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ganger"}
    assert "ganger/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = [name for name in names if name.endswith("entry_points.txt")]
        assert b"ganger = ganger.services.cli:main" in archive.read(entry_points)


def test_unpacked_wheel_runs_elsewhere(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = "import ganger.services.cli as c; print(c.__file__)"
    done = _python(code, tmp_path.parent, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))


def test_importing_everything_leaves_no_bare_package(tmp_path: Path) -> None:
    lines = [f"import ganger.{name}" for name in modules() if not name.startswith("streams.kafka")]
    code = "\n".join([*lines, "import sys", f"print(sorted(set(sys.modules) & set({PARTS})))"])
    done = _python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("part", PARTS)
def test_bare_import_is_refused(part: str) -> None:
    done = _python(f"import {part}", ROOT)
    assert done.returncode != 0
    assert f"ImportError: import ganger.{part}, not {part}" in done.stderr


def test_kernel_loads_no_heavy_package(tmp_path: Path) -> None:
    kernel = [name for name in modules() if name.startswith("streams.kernel")]
    code = "\n".join([*(f"import ganger.{name}" for name in kernel), "import sys"])
    heavy = ("click", "confluent_kafka", "fastavro", "faust", "prometheus_client", "rich")
    done = _python(f"{code}\nprint([n for n in {heavy} if n in sys.modules])", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
