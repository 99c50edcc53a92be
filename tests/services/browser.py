"""A real browser, one for all tests of a module: while it is there, Playwright has a loop in this thread, and no other
can run."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

#: The first of these that is installed, as in requirements/system.py, which installs Debian's.
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a browser the rest runs, unless REQUIRE_BROWSER says that all of it has to."""
    if CHROMIUM is not None or os.environ.get("REQUIRE_BROWSER"):
        return
    skip = pytest.mark.skip(reason="Chromium is not installed; `make browser` installs it or says how.")
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(skip)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        # Playwright runs a loop in this thread, and Django would take its own queries for ones inside it.
        patch.setitem(os.environ, "DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=CHROMIUM or NAMES[0], args=FLAGS)
        yield browser
        browser.close()
