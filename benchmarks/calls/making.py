"""A server with its one tool approved, an agent that may call it, and perhaps budgets: made by the verbs themselves.

`python -m benchmarks.calls.making '{"server": …, "url": …, "limits": {…}}'` prints what was made.
"""

import json
import sys
from typing import Any

REASON = "A measurement"


def make(server: str, url: str, limits: dict[str, Any]) -> dict[str, str]:
    from mcp.limits import budgets
    from mcp.models import Tool
    from mcp.servers import lifecycle
    from mcp.tools import definitions
    from nhi.access import grants
    from nhi.actors import person
    from nhi.choices import Kind
    from nhi.credentials import credentials
    from nhi.identities import identities
    from nhi.models import User

    mara = User.objects.get(username="mara")
    admin = person(mara)
    made = lifecycle.create(actor=admin, name=server, owner=mara, configuration={"transport": "http", "base_url": url})
    tool = Tool.objects.select_related("identity", "current").get(server=made)
    assert tool.current is not None, "The server was met and has listed it."
    definitions.approve(actor=admin, tool=tool, definition_hash=tool.current.hash, reason=REASON)
    agent = identities.create(actor=admin, kind=Kind.AGENT, name=f"agent-of-{server}", owner=mara)
    token = credentials.issue(actor=admin, holder=agent).token
    grant = grants.give_tool(actor=admin, agent=agent, tool=tool.identity, reason=REASON)
    targets = {"server": made.pk, "tool": tool.pk, "agent": agent.pk, "grant": grant.pk}
    if limits:
        for scope, target in targets.items():
            budgets.create(actor=admin, scope=scope, target_id=target, **limits)
    return {"token": token, **{scope: str(target) for scope, target in targets.items()}}


if __name__ == "__main__":
    import django

    django.setup()
    print(json.dumps(make(**json.loads(sys.argv[1]))))
