"""Nothing is called that was sent after the reply to a revoke: five ways to take access away, at four web processes."""

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

import pytest

from tests.mcp.load import callers
from tests.mcp.load.callers import Reply
from tests.mcp.load.conftest import Place, Town
from tests.services.waiting import wait_for

pytestmark = [
    pytest.mark.capability("NHI-03", "NHI-04", "NHI-06", "NHI-09", "MCP-07"),
    pytest.mark.both_databases,
    pytest.mark.xdist_group("house"),
]
BEFORE, AFTER = 60, 500
REASON = {"reason": "A test of what a revoke promises"}
Cut = Callable[[Town], tuple[str, dict[str, Any]]]

WAYS: dict[str, tuple[Cut, dict[str, Any], set[str]]] = {
    "the grant": (
        lambda town: (f"permissions/tools/{town.made['grants']['bot echo']}/revoke", REASON),
        {},
        {"403 grant_revoked"},
    ),
    "the role": (
        lambda town: (f"role-assignments/{town.made['assignments']['bot']}/revoke", REASON),
        {"by_role": ["bot"]},
        {"403 role_revoked"},
    ),
    "the credential": (
        lambda town: (f"credentials/{town.made['credentials']['bot']}/revoke", REASON),
        {},
        {"401 credential_revoked"},
    ),
    "the caller": (
        lambda town: (f"identities/{town.made['agents']['bot']}/suspend", REASON),
        {},
        {"401 caller_suspended"},
    ),
    "the tool": (
        lambda town: (f"identities/{town.made['tools']['echo']}/suspend", REASON),
        {},
        {"403 target_unusable"},
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_call_passes_that_was_sent_after_the_reply(place: Place, way: str) -> None:
    cut, wanted, refusals = WAYS[way]
    town = place.town(**wanted)
    hammer = Hammer(town)
    hammer.start()
    wait_for(lambda: len(town.peer.calls) >= BEFORE, 60, "called often enough")
    path, body = cut(town)
    town.webs.ask("POST", path, body, web=2)
    cut_at = time.monotonic()
    wait_for(lambda: len(hammer.sent_after(cut_at)) >= AFTER, 60, "asked often enough since")
    replies = hammer.stop()
    late = hammer.sent_after(cut_at)
    assert len(late) >= AFTER
    assert set(callers.by_answer(late)) == refusals
    before = [reply for reply in replies if reply.sent <= cut_at]
    assert sum(reply.status == 200 for reply in before) >= BEFORE // 2
    assert set(town.peer.call_ids.values()) == {1}
    allowed = {reply.call_id for reply in replies if reply.status == 200}
    assert set(town.peer.call_ids) == allowed, "what reached the server is what was answered as allowed"


@dataclass
class Hammer:
    """Eight clients at four processes, without a pause."""

    town: Town
    replies: list[Reply] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for client in range(8):
            thread = threading.Thread(target=self._work, args=(self.town.ports[client % 4],), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> list[Reply]:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        return self.replies

    def sent_after(self, moment: float) -> list[Reply]:
        return [reply for reply in list(self.replies) if reply.sent > moment]

    def _work(self, port: int) -> None:
        name, token = f"{self.town.made['name']}__echo", self.town.made["tokens"]["bot"]
        with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as link:
            while not self._ended.is_set():
                self.replies.append(callers.call(port, token, name, {}, link=link))
