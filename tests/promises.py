"""A pytest plugin: every test names the ids that it proves, and `--capability ID` runs those of one id."""

import pytest

from tests.capabilities import CAPABILITIES

SLOW = {"console", "owner", "people"}


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
        items[:] = sorted((item for item in items if wanted in ids(item)), key=slowness)


def slowness(item: pytest.Item) -> int:
    """Of an id's tests, those that start processes run late, then those with a browser, and with a house last."""
    late = (item.get_closest_marker("xdist_group"), item.get_closest_marker("browser"), SLOW & set(item.path.parts))
    return next((len(late) - place for place, is_so in enumerate(late) if is_so), 0)


def ids(item: pytest.Item) -> set[str]:
    return {one for mark in item.iter_markers("capability") for one in mark.args}
