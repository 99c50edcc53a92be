"""One who asks, agents that it may ask, and what stands behind each: made by the verbs themselves.

`python -m benchmarks.tasks.making` prints ids and tokens by name.
"""

import json
from typing import Any

REASON = "A measurement"
#: Who asks; its own workers take it; nothing is left to do for it; nobody comes for its tasks.
CALLER, INBOX, IDLE, PARKED = "caller", "inbox", "idle", "parked"
#: Where nothing is: what carries the tasks of that agent here does not go there.
NOWHERE = "127.0.0.1:9"


def make() -> dict[str, dict[str, str]]:
    from a2a import runtimes
    from nhi.access import grants
    from nhi.actors import SYSTEM
    from nhi.choices import Kind, PermissionType
    from nhi.credentials import credentials
    from nhi.identities import identities
    from nhi.models import Identity, User

    mara = User.objects.get(username="mara")

    def agent(name: str) -> Identity:
        return identities.create(actor=SYSTEM, kind=Kind.AGENT, name=name, owner=mara)

    made = {name: agent(name) for name in (CALLER, INBOX, IDLE, PARKED)}
    for name in (INBOX, IDLE, PARKED):
        pair: dict[str, Any] = {"source": made[CALLER], "target": made[name]}
        grants.give_nhi(actor=SYSTEM, **pair, permission_type=PermissionType.CALL, reason=REASON)
    runtimes.choose(actor=SYSTEM, identity=made[IDLE], kind="remote", url=f"http://{NOWHERE}/")
    tokens = {name: credentials.issue(actor=SYSTEM, holder=one).token for name, one in made.items()}
    told = {name: {"id": str(one.pk), "token": tokens[name]} for name, one in made.items()}
    return {**told, "mara": {"id": str(mara.pk), "token": credentials.issue(actor=SYSTEM, holder=mara).token}}


if __name__ == "__main__":
    import django

    django.setup()
    print(json.dumps(make()))
