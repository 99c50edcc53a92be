"""What a call was asked before it was let through or refused: as its row recorded it, or as follows from that."""

from dataclasses import dataclass

from common.console import badges
from common.console.badges import Badge
from nhi.admin.explain import ASKS, WOULD
from nhi.decisions import engine
from nhi.models import InvocationLog

#: What the gateway's own checks ask.
GATEWAY_ASKS = {
    "server": "The server is enabled",
    "definition": "The tool's definition is approved",
    "input": "Arguments are as the tool describes them",
    "breaker": "The server's breaker lets calls through",
}
#: No call passes without an answer to these; the others ask where there is a limit, a schema or somebody to ask.
ALWAYS = frozenset({"credential", "caller", "target_known", "access", "target", "server", "definition"})
#: What a call that passed was asked, where the question of a refusal would read as its opposite.
WHERE_ASKED = {"approval": "Approved by a person, where one must"}
#: What is asked between identities only.
NOT_OF_TOOLS = frozenset({"action"})


@dataclass(frozen=True)
class Checked:
    """One check of the decision, as the row recorded it."""

    name: str
    outcome: str
    reason: str
    #: It decided; and whether it stands behind the one that did.
    decides: bool
    behind: bool

    @property
    def asks(self) -> str:
        return _asks(self.name)

    @property
    def badge(self) -> Badge:
        found = badges.find("answer", self.outcome)
        return found.saying(WOULD[self.outcome]) if self.behind else found


@dataclass(frozen=True)
class Passed:
    """A check that a call which was let through had behind it, and what the row recorded of that."""

    asks: str
    fact: str
    #: Each call is asked this; another check may have had nothing to ask.
    surely: bool

    @property
    def badge(self) -> Badge:
        return badges.find("answer", "pass" if self.surely else "skip").saying(
            "Passed" if self.surely else "Passed, or had nothing to ask"
        )


def let_through(row: InvocationLog) -> list[Passed]:
    """What a call that was let through had been asked. Only refusals keep a list, so none failed or there were one."""
    if "decision" in row.details:
        return []
    facts = {
        "access": f"by the role {row.agent_role}" if row.agent_role else "by a grant" if row.grant_id else "",
        "approval": "a person approved this very call" if row.details.get("approval_id") else "",
        "breaker": "its state then stands beside" if row.details.get("breaker") else "",
        "budget": "room in each that stands beside" if row.details.get("budgets") else "",
    }
    names = [name for name, _ in engine.CHECKS if name not in NOT_OF_TOOLS]
    return [
        Passed(WHERE_ASKED.get(name) or _asks(name), facts.get(name, ""), name in ALWAYS or bool(facts.get(name)))
        for name in names
    ]


def _asks(name: str) -> str:
    return {**ASKS, **GATEWAY_ASKS}.get(name, name.replace("_", " ").capitalize())


def recorded(row: InvocationLog) -> list[Checked]:
    """As they were written with the row; a call that was let through has passed them all."""
    recorded = row.details.get("decision", [])
    failed = next((name for name, outcome, _ in recorded if outcome == "fail"), "")
    found, behind = [], False
    for name, outcome, reason in recorded:
        found.append(Checked(name, outcome, reason, name == failed, behind))
        behind = behind or name == failed
    return found
