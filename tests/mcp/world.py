"""Agents, servers, approved tools and grants, made by the verbs themselves, here or in a process of their own.

`python -m tests.mcp.world '{"server": …}'` makes them in the database of its environment and prints what was made.
"""

import json
import sys
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass
class Wanted:
    url: str = ""
    server: str = "peer"
    #: Each with a grant for every tool, unless named in `without`.
    agents: list[str] = field(default_factory=lambda: ["bot"])
    without: list[str] = field(default_factory=list)
    #: By role instead of by grant.
    by_role: list[str] = field(default_factory=list)
    limits: Json = field(default_factory=dict)
    timeout: float = 30.0
    #: (scope, name of the target, limits); a grant's target is the agent's name and the tool's.
    budgets: list[list[Any]] = field(default_factory=list)
    breaker: Json = field(default_factory=dict)
    requires_approval: bool = False
    stdio: list[str] = field(default_factory=list)


def build(wanted: Wanted) -> Json:
    from mcp.limits import budgets
    from mcp.models import Breaker, Tool
    from mcp.servers import lifecycle
    from mcp.tools import definitions
    from nhi.access import grants, roles
    from nhi.actors import SYSTEM, person
    from nhi.choices import Kind
    from nhi.credentials import credentials
    from nhi.identities import identities
    from nhi.models import User
    from nhi.people import people

    owner = User.objects.filter(username="owner").first() or people.create(actor=SYSTEM, username="owner").user
    mara = User.objects.filter(username="mara").first()
    mara = mara or people.create(actor=SYSTEM, username="mara", roles=("security-admin",)).user
    admin = person(mara)
    way: Json = {"transport": "http", "base_url": wanted.url}
    if wanted.stdio:
        way = {"transport": "stdio", "command": wanted.stdio[0], "args": wanted.stdio[1:]}
    given = {**way, "timeout": wanted.timeout}
    server = lifecycle.create(actor=admin, name=wanted.server, owner=owner, configuration=given)
    if wanted.breaker:
        Breaker.objects.filter(server=server).update(**wanted.breaker)
    tools = {tool.name: tool for tool in Tool.objects.filter(server=server).select_related("identity", "current")}
    for tool in tools.values():
        definitions.approve(actor=admin, tool=tool, definition_hash=tool.current.hash, reason="For the test")
    Tool.objects.filter(server=server).update(requires_approval=wanted.requires_approval)
    made: Json = {"server": str(server.pk), "tools": {n: str(t.pk) for n, t in tools.items()}, "status": server.status}
    made |= {"agents": {}, "tokens": {}, "credentials": {}, "grants": {}, "assignments": {}, "budgets": []}
    targets: dict[tuple[str, str], Any] = {("server", wanted.server): server.pk}
    targets |= {("tool", name): tool.pk for name, tool in tools.items()}
    for name in wanted.agents:
        agent = identities.create(actor=SYSTEM, kind=Kind.AGENT, name=name, owner=owner)
        issued = credentials.issue(actor=SYSTEM, holder=agent)
        made["agents"][name], made["tokens"][name] = str(agent.pk), issued.token
        made["credentials"][name] = str(issued.credential.pk)
        targets["agent", name] = agent.pk
        if name in wanted.by_role:
            role = roles.create(actor=SYSTEM, name=f"role-of-{name}", patterns=[f"{wanted.server}.*"])
            held = roles.assign(actor=SYSTEM, role=role, identity=agent, reason="For the test")
            made["assignments"][name] = str(held.pk)
        elif name not in wanted.without:
            for tool_name, tool in tools.items():
                grant = grants.give_tool(
                    actor=SYSTEM, agent=agent, tool=tool.identity, reason="For the test", **wanted.limits
                )
                made["grants"][f"{name} {tool_name}"] = str(grant.pk)
                targets["grant", f"{name} {tool_name}"] = grant.pk
    for scope, name, limits in wanted.budgets:
        budget = budgets.create(actor=admin, scope=scope, target_id=targets[scope, name], **limits)
        made["budgets"].append(str(budget.pk))
    return made


if __name__ == "__main__":
    import django

    django.setup()
    print(json.dumps(build(Wanted(**json.loads(sys.argv[1])))))
