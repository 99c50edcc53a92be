"""Four web processes under load: nothing passes that was sent after the reply to a revoke or stop, or after an end."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.nhi.load.hammer import Hammer, Probe
from tests.nhi.load.webs import Webs, running
from tests.services.migrated import ROOT

pytestmark = [
    pytest.mark.capability("NHI-02", "NHI-03", "NHI-04", "NHI-06", "NHI-09", "NHI-10"),
    pytest.mark.both_databases,
    pytest.mark.xdist_group("house"),
]
#: So many calls of each probe before its cut, and so many sent after it.
BEFORE, AFTER = 15, 60
#: SQLite tells the time in milliseconds.
TICK = 0.001
#: When ends come that are set while the load is on.
SOON = timedelta(seconds=1)


@dataclass
class Cut:
    """Probes, and what ends them: it answers with the moment from which nothing may pass, by the monotonic clock."""

    probes: list[Probe]
    act: Callable[[int], float]


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

    def serve_tools(self) -> None:
        """A tool that no server offers is refused whatever else holds."""
        command = [sys.executable, "-m", "tests.nhi.load.serving"]
        subprocess.run(command, cwd=ROOT, env=self.webs.environ, check=True)

    def revoked_credential(self) -> Cut:
        agent, issued = self.agent("revoked-credential")
        tool = self.tool("revoked-credential")
        self.grant(agent, tool)
        probes = [
            Probe("credential revoked, me", issued["token"]),
            Probe("credential revoked, call", issued["token"], tool),
        ]
        return Cut(probes, self.verb(f"credentials/{issued['id']}/revoke"))

    def suspended_caller(self) -> Cut:
        agent, issued = self.agent("suspended-caller")
        tool = self.tool("suspended-caller")
        self.grant(agent, tool)
        probes = [
            Probe("caller suspended, me", issued["token"]),
            Probe("caller suspended, call", issued["token"], tool),
        ]
        return Cut(probes, self.verb(f"identities/{agent}/suspend"))

    def suspended_tool(self) -> Cut:
        agent, issued = self.agent("suspended-tool")
        tool = self.tool("suspended-tool")
        self.grant(agent, tool)
        return Cut([Probe("tool suspended", issued["token"], tool)], self.verb(f"identities/{tool}/suspend"))

    def revoked_grant(self) -> Cut:
        agent, issued = self.agent("revoked-grant")
        tool = self.tool("revoked-grant")
        grant = self.grant(agent, tool)
        return Cut([Probe("grant revoked", issued["token"], tool)], self.verb(f"permissions/tools/{grant}/revoke"))

    def revoked_role(self) -> Cut:
        agent, issued = self.agent("revoked-role")
        tool = self.tool("revoked-role")
        role = self.post("roles", {"name": "revoked-role", "capabilities": ["load.revoked-role"]})
        held = self.post("role-assignments", {"role_id": role["id"], "identity_id": agent})
        return Cut([Probe("role revoked", issued["token"], tool)], self.verb(f"role-assignments/{held['id']}/revoke"))

    def ended_caller(self) -> Cut:
        """Its end is set while it calls, and comes by itself."""
        agent, issued = self.agent("ended-caller")

        def act(web: int) -> float:
            ends = datetime.now(UTC) + SOON
            self.webs.ask("PATCH", f"identities/{agent}", {"expires_at": ends.isoformat()}, web=web)
            return monotonic(ends)

        return Cut([Probe("caller ended", issued["token"])], act)

    def ended_grant(self) -> Cut:
        """Given again in the middle of the load, with an end that comes by itself."""
        agent, issued = self.agent("ended-grant")
        tool = self.tool("ended-grant")
        old = self.grant(agent, tool)

        def act(web: int) -> float:
            self.post(f"permissions/tools/{old}/revoke", self.reason, web=web)
            ends = datetime.now(UTC) + SOON
            self.grant(agent, tool, expires_at=ends.isoformat())
            return monotonic(ends)

        return Cut([Probe("grant ended", issued["token"], tool)], act)

    def ended_overlap(self) -> Cut:
        """The old credential of a rotation ends by itself; the new one is none of these probes."""
        _agent, issued = self.agent("ended-overlap")

        def act(web: int) -> float:
            overlap = {"overlap_seconds": int(SOON.total_seconds())}
            rotated = self.post(f"credentials/{issued['id']}/rotate", overlap, web=web)
            return monotonic(datetime.fromisoformat(rotated["previous"]["expires_at"]))

        return Cut([Probe("overlap ended", issued["token"])], act)

    def verb(self, path: str) -> Callable[[int], float]:
        def act(web: int) -> float:
            self.webs.ask("POST", path, self.reason, web=web)
            return time.monotonic()

        return act


def monotonic(moment: datetime) -> float:
    """A moment of the wall clock, which the database's is too, on the monotonic one."""
    return moment.timestamp() + TICK - time.time() + time.monotonic()


def test_nothing_that_was_sent_after_the_reply_is_allowed(webs: Webs) -> None:
    scene = Scene(webs)
    cuts = [
        scene.revoked_credential(), scene.suspended_caller(), scene.suspended_tool(), scene.revoked_grant(),
        scene.revoked_role(), scene.ended_grant(), scene.ended_caller(), scene.ended_overlap(),
    ]  # fmt: skip
    scene.serve_tools()
    hammer = Hammer(webs.ports, [probe for cut in cuts for probe in cut.probes])
    hammer.start(each=2)
    try:
        for probe in hammer.probes:
            hammer.wait_for(probe.name, BEFORE)
        moments = {}
        for number, cut in enumerate(cuts):
            moments |= dict.fromkeys([probe.name for probe in cut.probes], cut.act(number % len(webs.ports)))
        for name, moment in moments.items():
            hammer.wait_for(name, AFTER, after=moment)
    finally:
        hammer.stop()
    assert not hammer.errors
    for name, moment in moments.items():
        calls = hammer.calls[name]
        late = [call for call in calls if call.sent > moment]
        assert len(late) >= AFTER
        assert not [call for call in late if call.allowed], name
        assert sum(call.allowed for call in calls) >= BEFORE, f"{name} was allowed before"
        assert {call.status for call in calls} <= {200, 401}, name
        assert {call.status for call in late} == ({401} if name in SHOWN else {200}), name


#: Probes whose token is refused afterwards; the others are told a decision.
SHOWN = {
    "credential revoked, me", "credential revoked, call", "caller suspended, me", "caller suspended, call",
    "caller ended", "overlap ended",
}  # fmt: skip
