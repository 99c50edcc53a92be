"""A pytest plugin: every test names the ids that it proves, and `--capability ID` runs those of one id."""

import pytest

from tests.capabilities import CAPABILITIES

SLOW = {"console", "house", "load", "owner", "people"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--capability", metavar="ID", help="Run only the tests that prove this id.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wrong = sorted({item.nodeid for item in items if not ids(item) or not ids(item) <= CAPABILITIES.keys()})
    if wrong:
        raise pytest.UsageError(f"These tests name no id of tests/capabilities.py, or one it does not have: {wrong}")
    wanted = config.getoption("--capability")
    if wanted:
        others = [item for item in items if wanted not in ids(item)]
        config.hook.pytest_deselected(items=others)
        items[:] = sorted((item for item in items if wanted in ids(item)), key=is_slow)


def is_slow(item: pytest.Item) -> bool:
    """Whether it may start a house or a browser: of an id's tests, those run last."""
    return bool(SLOW & set(item.path.parts)) or item.get_closest_marker("xdist_group") is not None


def ids(item: pytest.Item) -> set[str]:
    return {one for mark in item.iter_markers("capability") for one in mark.args}
