"""Lists what an identity can reach now and through which grant or role."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from django.db.models import Prefetch

from nhi.access import roles
from nhi.decisions import capabilities
from nhi.models import Identity, NhiPermission, RoleAssignment, RoleCapability, ToolPermission


@dataclass(frozen=True)
class AccessPath:
    """A live grant or role assignment that gives access to a target."""

    kind: Literal["grant", "role"]
    id: UUID
    name: str
    expires_at: datetime | None


@dataclass(frozen=True)
class ReachableTarget:
    """A target with every live grant or role that gives access to it."""

    id: UUID
    name: str
    capability: str | None
    via: list[AccessPath] = field(default_factory=list)


@dataclass(frozen=True)
class AccessOverview:
    """Everything that an identity can call now. `agents` includes service accounts."""

    tools: list[ReachableTarget]
    agents: list[ReachableTarget]

    @property
    def total(self) -> int:
        return len(self.tools) + len(self.agents)


def load(identity: Identity) -> AccessOverview:
    """Return all usable targets of the identity, by the rules that decide a call. Takes four queries at any size."""
    return AccessOverview(_reachable_tools(identity), _reachable_agents(identity))


def _reachable_tools(identity: Identity) -> list[ReachableTarget]:
    grants = (
        ToolPermission.objects.live().filter(agent=identity, tool__in=Identity.objects.usable()).select_related("tool")
    )
    targets: dict[UUID, ReachableTarget] = {}
    for grant in grants:
        targets.setdefault(grant.tool_id, _reachable_target(grant.tool)).via.append(
            AccessPath("grant", grant.pk, f"by {grant.granted_by_name}", grant.expires_at)
        )
    by_pattern = _role_patterns(identity)
    for tool in roles.covered_tools(by_pattern).usable() if by_pattern else ():
        target = targets.setdefault(tool.pk, _reachable_target(tool))
        covering = [path for pattern, paths in by_pattern.items() if covers(pattern, tool.capability) for path in paths]
        target.via.extend(dict.fromkeys(covering))
    return sorted(targets.values(), key=lambda target: target.name)


def _role_patterns(identity: Identity) -> dict[str, list[AccessPath]]:
    """Return the effective patterns of the identity's live roles, each with the assignments that give it."""
    effective = Prefetch("role__capabilities", RoleCapability.objects.effective(), to_attr="effective")
    assignments = (
        RoleAssignment.objects.live().filter(identity=identity).select_related("role").prefetch_related(effective)
    )
    patterns: dict[str, list[AccessPath]] = defaultdict(list)
    for assignment in assignments:
        for capability in assignment.role.effective:  # type: ignore[attr-defined]  # set by the prefetch
            path = AccessPath("role", assignment.pk, assignment.role.name, assignment.expires_at)
            patterns[capability.pattern].append(path)
    return patterns


def _reachable_agents(identity: Identity) -> list[ReachableTarget]:
    grants = NhiPermission.objects.live().filter(source=identity, target__in=Identity.objects.usable())
    targets: dict[UUID, ReachableTarget] = {}
    for grant in grants.select_related("target"):
        agent = targets.setdefault(grant.target_id, _reachable_target(grant.target))
        agent.via.append(
            AccessPath("grant", grant.pk, f"{grant.permission_type} by {grant.granted_by_name}", grant.expires_at)
        )
    return sorted(targets.values(), key=lambda target: target.name)


def _reachable_target(target: Identity) -> ReachableTarget:
    return ReachableTarget(target.pk, target.name, target.capability)


def covers(pattern: str, capability: str | None) -> bool:
    return capabilities.matches(pattern, capability or "")
