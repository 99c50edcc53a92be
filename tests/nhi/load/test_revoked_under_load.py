"""Four web processes under load: nothing passes that was sent after the reply to a revoke or stop, or after an end."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.nhi.load.hammer import Hammer, Probe
from tests.nhi.load.webs import Webs, running

pytestmark = [
    pytest.mark.capability("NHI-02", "NHI-03", "NHI-04", "NHI-06", "NHI-09", "NHI-10"),
    pytest.mark.both_databases,
    pytest.mark.xdist_group("house"),
]
#: So many calls of each probe before its cut, and so many sent after it.
BEFORE, AFTER = 15, 60
#: SQLite tells the time in milliseconds.
TICK = 0.001


@dataclass
class Cut:
    """A probe, what ends it, and whether the end is the reply to a request or a moment that was set before."""

    probe: Probe
    act: Callable[[int], Any] | None = None
    ends: datetime | None = None


@pytest.fixture(scope="module")
def webs(tmp_path_factory: pytest.TempPathFactory, broker: str) -> Iterator[Webs]:
    with running(Path(tmp_path_factory.mktemp("webs")), broker) as four:
        yield four


class Scene:
    """Identities, tools and the ways in which access is taken away, each with an agent of its own."""

    def __init__(self, webs: Webs) -> None:
        self.webs = webs
        self.reason = {"reason": "A test of what a revoke promises"}

    def post(self, path: str, body: dict[str, Any], web: int = 0) -> dict[str, Any]:
        return dict(self.webs.ask("POST", path, body, web=web))

    def agent(self, name: str) -> tuple[str, dict[str, Any]]:
        made = self.post("identities", {"kind": "agent", "name": name})
        return made["id"], self.post(f"identities/{made['id']}/credentials", {})

    def tool(self, name: str) -> str:
        return str(self.post("identities", {"kind": "tool", "name": f"load__{name}"})["id"])

    def grant(self, agent: str, tool: str, **limits: Any) -> str:
        return str(self.post("permissions/tools", {"agent_id": agent, "tool_id": tool, **limits, **self.reason})["id"])

    def revoked_credential(self) -> list[Cut]:
        agent, issued = self.agent("revoked-credential")
        tool = self.tool("revoked-credential")
        self.grant(agent, tool)
        act = self.verb(f"credentials/{issued['id']}/revoke")
        return [Cut(Probe("credential revoked, me", issued["token"]), act), self.follower(issued, tool)]

    def follower(self, issued: dict[str, Any], tool: str) -> Cut:
        """A second probe of the same identity, ended by the cut before it."""
        return Cut(Probe("credential revoked, call", issued["token"], tool))

    def suspended_caller(self) -> list[Cut]:
        agent, issued = self.agent("suspended-caller")
        tool = self.tool("suspended-caller")
        self.grant(agent, tool)
        act = self.verb(f"identities/{agent}/suspend")
        first = Cut(Probe("caller suspended, me", issued["token"]), act)
        return [first, Cut(Probe("caller suspended, call", issued["token"], tool))]

    def suspended_tool(self) -> list[Cut]:
        agent, issued = self.agent("suspended-tool")
        tool = self.tool("suspended-tool")
        self.grant(agent, tool)
        return [Cut(Probe("tool suspended", issued["token"], tool), self.verb(f"identities/{tool}/suspend"))]

    def revoked_grant(self) -> list[Cut]:
        agent, issued = self.agent("revoked-grant")
        tool = self.tool("revoked-grant")
        grant = self.grant(agent, tool)
        return [Cut(Probe("grant revoked", issued["token"], tool), self.verb(f"permissions/tools/{grant}/revoke"))]

    def revoked_role(self) -> list[Cut]:
        agent, issued = self.agent("revoked-role")
        tool = self.tool("revoked-role")
        role = self.post("roles", {"name": "revoked-role", "capabilities": ["load.revoked-role"]})
        held = self.post("role-assignments", {"role_id": role["id"], "identity_id": agent})
        return [Cut(Probe("role revoked", issued["token"], tool), self.verb(f"role-assignments/{held['id']}/revoke"))]

    def ended(self) -> list[Cut]:
        """A grant and an identity whose time runs out while the others are cut off by hand."""
        agent, issued = self.agent("ended-grant")
        tool = self.tool("ended-grant")
        caller, shown = self.agent("ended-caller")
        ends = datetime.now(UTC) + timedelta(seconds=5)
        self.grant(agent, tool, expires_at=ends.isoformat())
        self.webs.ask("PATCH", f"identities/{caller}", {"expires_at": ends.isoformat()})
        return [
            Cut(Probe("grant ended", issued["token"], tool), ends=ends),
            Cut(Probe("caller ended", shown["token"]), ends=ends),
        ]

    def verb(self, path: str) -> Callable[[int], Any]:
        return lambda web: self.webs.ask("POST", path, self.reason, web=web)


def test_nothing_that_was_sent_after_the_reply_is_allowed(webs: Webs) -> None:
    scene = Scene(webs)
    groups = [
        scene.revoked_credential(), scene.suspended_caller(), scene.suspended_tool(), scene.revoked_grant(),
        scene.revoked_role(), scene.ended(),
    ]  # fmt: skip
    hammer = Hammer(webs.ports, [cut.probe for group in groups for cut in group])
    hammer.start(each=2)
    cuts: dict[str, float] = {}
    try:
        for number, group in enumerate(groups):
            for cut in group:
                hammer.wait_for(cut.probe.name, BEFORE)
            if act := group[0].act:
                act(number % len(webs.ports))
                cuts |= dict.fromkeys((cut.probe.name for cut in group), time.monotonic())
        shift = time.time() - time.monotonic()
        for cut in groups[-1]:
            assert cut.ends is not None
            cuts[cut.probe.name] = cut.ends.timestamp() + TICK - shift
        for name, moment in cuts.items():
            hammer.wait_for(name, AFTER, after=moment)
    finally:
        hammer.stop()
    assert not hammer.errors
    for name, moment in cuts.items():
        calls = hammer.calls[name]
        late = [call for call in calls if call.sent > moment]
        assert len(late) >= AFTER
        assert not [call for call in late if call.allowed], name
        assert sum(call.allowed for call in calls) >= BEFORE // 2, f"{name} was allowed before"
        assert {call.status for call in calls} <= {200, 401}, name
        assert {call.status for call in late} == ({401} if name.endswith(SHOWN) else {200}), name


#: Probes whose token is refused afterwards; the others are told a decision.
SHOWN = (", me", "credential revoked, call", "caller suspended, call", "caller ended")
