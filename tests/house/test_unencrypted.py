"""`up` warns when others reach it over plain HTTP."""

import io
from typing import Any

import pytest
from django.core.management import call_command

from config.launcher import launch
from config.management.commands import up

pytestmark = pytest.mark.capability("OPS-01")

WARNING = "Warning: passwords and tokens sent to"


def output(bind: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What `up` prints before it starts a process."""
    monkeypatch.setattr(launch, "run", lambda **_: None)
    monkeypatch.setattr(up.Command, "prepare", lambda *_, **__: None)
    stdout = io.StringIO()
    call_command("up", bind=bind, stdout=stdout)
    return stdout.getvalue()


@pytest.mark.parametrize(
    ("bind", "public_url", "warns"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000", False),
        ("::1", "http://[::1]:8000", False),
        ("localhost", "http://localhost:8000", False),
        ("0.0.0.0", "http://127.0.0.1:8000", True),
        ("::", "http://agents.example.com", True),
        ("192.168.0.4", "https://agents.example.com", False),
    ],
)
def test_only_an_address_that_others_reach_over_plain_http_is_warned_of(
    bind: str, public_url: str, warns: bool, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PUBLIC_URL = public_url
    assert (WARNING in output(bind, monkeypatch)) is warns
