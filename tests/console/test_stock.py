"""The stock templates that ours stand in for, by their hash: an upgrade that changes one is noticed."""

import hashlib
from pathlib import Path

import pytest
import unfold
from django.conf import settings

pytestmark = pytest.mark.capability("CON-06")

STOCK = {
    "admin/base.html": "2ce9250b3c649e3a1d3c7ea52308a2858c60374b76089c29a838c7cc870dbcf0",
    "admin/index.html": "9fdb849b7da18ccde0e5dda1923465830718700726570ea70554bffe1f012115",
    "unfold/layouts/skeleton.html": "66af9f0bb45f98ba4e16ba5e5a11f36d87b8e07430d19066d088b29548491c2e",
}


def overridden() -> set[str]:
    """Our templates that have the name of one of unfold's."""
    ours, theirs = Path(settings.BASE_DIR) / "templates", Path(unfold.__file__).parent / "templates"
    names = {str(path.relative_to(ours)) for path in ours.rglob("*.html")}
    return {name for name in names if (theirs / name).exists()}


def test_every_overridden_template_is_known() -> None:
    assert overridden() == STOCK.keys()


@pytest.mark.parametrize("name", STOCK)
def test_the_stock_template_is_the_one_that_was_read(name: str) -> None:
    stock = Path(unfold.__file__).parent / "templates" / name
    assert hashlib.sha256(stock.read_bytes()).hexdigest() == STOCK[name]
