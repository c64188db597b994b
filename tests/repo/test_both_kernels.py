"""Tests that only an interpreted kernel can run are in the part of `make test` that has one."""

import re

from support.source_tree import ROOT, python_files

_MARK = "@pytest.mark.interpreted"


def test_marked_tests_are_run_interpreted() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (line,) = re.findall(r"^KERNEL_TESTS := (.*)$", makefile.replace("\\\n", ""), re.MULTILINE)
    places = [ROOT / word for word in line.split()]
    assert all(place.exists() for place in places), line
    marked = [path for path in python_files("tests") if f"\n{_MARK}\n" in path.read_text()]
    assert len(marked) > 2
    for path in marked:
        assert any(path.is_relative_to(place) for place in places), path
