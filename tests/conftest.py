import pytest

from ganger.streams.compiled.finder import kernel_kind

pytest_plugins = ("support.kafka",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if kernel_kind() == "compiled":
        for item in items:
            if item.get_closest_marker("interpreted"):
                reason = "replaces functions of the kernel: GANGER_INTERPRETED=1 runs it"
                item.add_marker(pytest.mark.skip(reason=reason))
