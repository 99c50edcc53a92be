"""What stands behind a question, outside of the gateway's hot path: the task or the run that it is asked in."""

from datetime import datetime
from typing import Any
from uuid import UUID

from nhi import hooks
from nhi.actors import Actor
from nhi.authorization import facts
from nhi.authorization.facts import Loaded
from nhi.choices import Kind
from nhi.decisions import chains, delegation
from nhi.decisions.chains import Chain, Link
from nhi.decisions.delegation import Standing
from nhi.decisions.types import Action, Condition, Party


def of(chain: Chain, wanted: Action, loaded: Loaded, *, at: datetime | None = None) -> Standing:
    """What those on whose behalf something is done would be told, if they did it themselves."""
    target, known = loaded.target, loaded.facts
    principals = facts.of_principals(chain.principals, target.id, at=at) if target is not None else []
    return delegation.along(principals, wanted, target, decision_id=known.decision_id, at=known.decided_at)


def asked(
    loaded: Loaded, wanted: Action, *, run: Chain | None = None, task_id: UUID | None = None,
    seen_by: Actor | None = None, at: datetime | None = None,
) -> Standing | None:  # fmt: skip
    """The same for one that acts in this run or for that task; None for who acts in neither."""
    caller, target = loaded.caller, loaded.target
    if caller is None or target is None:
        return None
    named = chains.task_of(run, task_id)
    tasks = hooks.tasks([named], seen_by=seen_by) if named is not None else {}
    behind = chains.behind(run, task_id, caller.id, tasks)
    if isinstance(behind, Condition):
        return Standing(behind)
    if behind is None:
        return None
    ends = _ends(behind, caller, target)
    return of(behind, wanted, loaded, at=at) if ends.ok else Standing(ends)


def hour(loaded: Loaded) -> tuple[Condition, ...]:
    """What is left of the hour of a grant between the two, if it has a limit: of the one that would be used."""
    if loaded.target is None or loaded.target.kind == Kind.TOOL:
        return ()
    live = sorted((match for match in loaded.facts.matches if match.live), key=lambda match: not match.delegates)
    return hooks.hour(live[0]) if live and live[0].max_calls_per_hour is not None else ()


def conditions(standing: Standing | None) -> tuple[Condition, ...]:
    """What a decision is told of it."""
    if standing is None:
        return ()
    asks = (Condition("every_call_approved", True),) if standing.asks else ()
    return (standing.condition, *asks)


def _ends(behind: Chain, caller: Party, target: Party) -> Condition:
    """Tools are called and ask nobody; agents are asked, and may not come round again."""
    if target.kind == Kind.TOOL:
        return Condition("chain", True)
    return behind.asks(Link(caller.id, caller.name), delegates=False).to(target.id, target.name)


def run_of(loaded: Loaded) -> Chain | None:
    """What stands behind the run whose token was shown."""
    kept: Any = loaded.credential.chain if loaded.credential is not None else None
    return chains.read(kept)
