"""EGRESS_ALLOW: exact places, each in one spelling."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from config import environment

pytestmark = pytest.mark.capability("OPS-02")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("", set()),
        ("todo.internal:8080", {"todo.internal:8080"}),
        (" Todo.Internal:8080 , 127.0.0.1:9000,", {"todo.internal:8080", "127.0.0.1:9000"}),
        ("[0:0::1]:9000", {"[::1]:9000"}),
        ("[::ffff:127.0.0.1]:1", {"[::ffff:7f00:1]:1"}),
        ("localhost:65535", {"localhost:65535"}),
    ],
)
def test_places_are_read(given: str, read: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRESS_ALLOW", given)
    assert environment.endpoints("EGRESS_ALLOW") == read


@pytest.mark.parametrize(
    "given",
    [
        "todo.internal", "todo.internal:", "todo.internal:0", "todo.internal:65536", "todo.internal:08", ":80", "*:80",
        "*.internal:80", "http://todo.internal:80", "todo.internal:80/mcp", "user@todo.internal:80", "127.1:80",
        "0x7f000001:80", "127.0.0.01:80", "2130706433:80", "::1:80", "[::1]", "[::g]:80", "[fe80::1%1]:80",
        "10.0.0.0/8:80",
        "todo.internal.:80", "todo.internal:８０", "töd.example:80", "todo.internal:80;b:80",
    ],
)  # fmt: skip
def test_anything_else_stops_the_start(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRESS_ALLOW", f"fine.internal:80,{given}")
    with pytest.raises(ImproperlyConfigured, match="EGRESS_ALLOW"):
        environment.endpoints("EGRESS_ALLOW")
