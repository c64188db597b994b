"""What becomes of the demo when it is interrupted, wherever the signal finds it."""

import os
import signal
import sys
from collections.abc import Iterator
from typing import NoReturn

import pytest

from ganger.services import demo
from ganger.services.demo import DemoFailed, Interruption

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Ended(BaseException):
    """Instead of the end of the process."""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """What listens to signals is put back."""
    before = [signal.getsignal(number) for number in SIGNALS]
    yield
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Exit codes of processes that end at once."""
    found: list[int] = []

    def end(code: int) -> NoReturn:
        found.append(code)
        raise Ended

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(sys, "argv", ["demo"])
    return found


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("what", [KeyboardInterrupt, SystemError, DemoFailed])
def test_an_interruption_is_one_as_whatever_it_comes_out(
    number: int, what: type[BaseException], codes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(job_count: int, seed: int, interruption: Interruption) -> None:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            raise what("out of a library") from None

    monkeypatch.setattr(demo, "run", run)
    with pytest.raises(Ended):
        demo.main()
    assert codes == [130]


def test_an_interruption_that_a_library_swallows_is_met_later(
    codes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(job_count: int, seed: int, interruption: Interruption) -> None:
        demo.check([interruption])
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # a second one does not disturb the end
        demo.check([interruption])

    monkeypatch.setattr(demo, "run", run)
    with pytest.raises(Ended):
        demo.main()
    assert codes == [130]


def test_a_failure_is_none(codes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def run(job_count: int, seed: int, interruption: Interruption) -> None:
        raise DemoFailed("it rains")

    monkeypatch.setattr(demo, "run", run)
    with pytest.raises(SystemExit) as ended:
        demo.main()
    assert ended.value.code == 1
    assert codes == []
