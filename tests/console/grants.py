"""Where the pages of grants are, and what they list."""

import re
from html import unescape
from typing import Any

from django.test import Client

from nhi import actors
from nhi.models import NhiPermission, RoleAssignment, ToolPermission, User, UserPermission

KINDS = {
    "toolpermission": ToolPermission,
    "nhipermission": NhiPermission,
    "userpermission": UserPermission,
    "roleassignment": RoleAssignment,
}


def at(kind: str, where: str = "", **query: str) -> str:
    found = "&".join(f"{name}={value}" for name, value in query.items())
    return f"/admin/nhi/{kind}/{where}{'?' if found else ''}{found}"


def rows(answer: Any) -> list[str]:
    return [row["name"] for row in answer.context["rows"]]


def tool_grant(agent: str = "triage-bot", tool: str = "github__create_issue") -> ToolPermission:
    return ToolPermission.objects.get(agent__name=agent, tool__name=tool, revoked_at=None)


def as_mara() -> actors.Actor:
    return actors.person(User.objects.get(username="mara"))


def told(client: Client, path: str) -> list[tuple[str, str]]:
    """Method and path of every call that a page offers as `curl`."""
    body = unescape(client.get(path).content.decode())
    return re.findall(r"curl -X (\w+) https?://[^/]+(/api/\S+)", body)
