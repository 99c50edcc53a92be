"""Who may call tools, by grants and by roles: counted for dialogs and lists."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count

from nhi.decisions import capabilities
from nhi.models import Identity, RoleAssignment, RoleCapability, ToolPermission


@dataclass(frozen=True)
class Reach:
    """How many agents hold a grant on one tool, and how many roles cover it."""

    grants: int
    roles: int

    @property
    def words(self) -> str:
        agents = f"{self.grants} {'agent' if self.grants == 1 else 'agents'}"
        return f"{agents}, {self.roles} {'role' if self.roles == 1 else 'roles'}" if self.roles else agents


def callers(tools: Iterable[Identity]) -> set[UUID]:
    """Who holds a live grant on any of them, or a role that covers one."""
    known = list(tools)
    found = set(
        ToolPermission.objects.live().filter(tool__in=[tool.pk for tool in known]).values_list("agent_id", flat=True)
    )
    roles = {role for role, pattern in _patterns() if any(_covers(pattern, tool) for tool in known)}
    if roles:
        found |= set(RoleAssignment.objects.live().filter(role__in=roles).values_list("identity_id", flat=True))
    return found


def of_page(tools: Iterable[Identity]) -> dict[UUID, Reach]:
    """For the rows of one page: two queries."""
    known = list(tools)
    grants = dict(
        ToolPermission.objects.live().filter(tool__in=[tool.pk for tool in known])
        .order_by().values_list("tool_id").annotate(Count("pk"))
    )  # fmt: skip
    patterns = _patterns()
    roles: Counter[UUID] = Counter()
    for tool in known:
        roles[tool.pk] = len({role for role, pattern in patterns if _covers(pattern, tool)})
    return {tool.pk: Reach(grants.get(tool.pk, 0), roles[tool.pk]) for tool in known}


def _patterns() -> list[tuple[UUID, str]]:
    return list(RoleCapability.objects.effective().values_list("role_id", "pattern"))


def _covers(pattern: str, tool: Identity) -> bool:
    return capabilities.matches(pattern, tool.capability or "")
