"""Session ids are short and signed, and are accepted in one spelling only."""

import re
from uuid import UUID

import pytest

from common import crypto
from mcp.server.handshake import message_parser, session_ids
from mcp.server.handshake.session_ids import CAPABILITY_BITS, SessionClaims

pytestmark = pytest.mark.capability("MCP-06")
BOT = UUID("018f0000-0000-7000-8000-00000000000a")
LARGEST = 2**64 - 1


def claims(version: str = "2025-11-25", *capabilities: str, epoch: int = 3) -> SessionClaims:
    endpoint = session_ids.make_endpoint_digest("todo")
    return SessionClaims(version, frozenset(capabilities), 1_800_000_000, epoch, BOT, endpoint)


@pytest.mark.parametrize("version", message_parser.SERVED_VERSIONS)
@pytest.mark.parametrize("capabilities", [(), ("roots",), ("sampling.tools", "elicitation.url"), CAPABILITY_BITS])
def test_what_is_issued_is_read_as_it_was(version: str, capabilities: tuple[str, ...]) -> None:
    wanted = claims(version, *capabilities)
    assert session_ids.parse(session_ids.issue(wanted)) == wanted


def test_an_id_is_short_and_visible_whatever_it_holds() -> None:
    issued = session_ids.issue(claims("2025-11-25", *CAPABILITY_BITS, epoch=LARGEST))
    assert len(issued) <= 140
    assert re.fullmatch(r"v1\.[\x21-\x7e]+", issued)


def test_no_two_sessions_have_one_id() -> None:
    assert len({session_ids.issue(claims()) for _ in range(50)}) == 50


def test_a_changed_id_is_none() -> None:
    issued = session_ids.issue(claims())
    for at, character in enumerate(issued):
        for other in "AB_":
            if other != character:
                assert session_ids.parse(issued[:at] + other + issued[at + 1 :]) is None


def test_the_same_bytes_in_another_spelling_are_none() -> None:
    """An ended session is remembered by the text of its id."""
    issued = session_ids.issue(claims())
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet.index(issued[-1])
    # 16 bytes fill all but four bits of the last character.
    twins = [issued[:-1] + alphabet[last ^ bits] for bits in range(1, 16)]
    assert [session_ids.parse(twin) for twin in twins] == [None] * 15
    assert session_ids.parse(issued.replace("-", "+").replace("_", "/") + "==") is None


def test_another_key_or_another_label_signs_nothing_here(monkeypatch: pytest.MonkeyPatch, settings: object) -> None:
    issued = session_ids.issue(claims())
    monkeypatch.setattr(session_ids, "SIGNING_LABEL", "mcp-cursor")
    assert session_ids.parse(issued) is None
    monkeypatch.undo()
    monkeypatch.setattr(settings, "SECRET_KEY", "another secret key")
    assert session_ids.parse(issued) is None


@pytest.mark.parametrize("given", ["", "v1", "v1..", "v1.a.b", "v2.x.y", "v1." + "A" * 400, "ä", "v1.A." + "A" * 22])
def test_nonsense_is_none(given: str) -> None:
    assert session_ids.parse(given) is None


def test_a_payload_of_another_length_is_none_although_it_is_signed() -> None:
    mac = session_ids._encode(crypto.sign("mcp-session", b"short")[:16])
    assert session_ids.parse(f"v1.{session_ids._encode(b'short')}.{mac}") is None
