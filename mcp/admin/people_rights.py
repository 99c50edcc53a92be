"""What the four roles may do at the gateway, as lines of the table "Who may do what"."""

from mcp.rights import ROLES
from nhi.console.console_role_rights import RIGHTS, RoleRight


def _line(words: str, *codenames: str, changes: bool = True) -> RoleRight:
    return RoleRight(words, frozenset(codenames), changes, ROLES)


RIGHTS += [
    _line(
        "See servers, tools, budgets, breakers and calls under way",
        "view_server", "view_tool", "view_budget", "view_breaker", "view_healthreport", "view_call",
        "view_callapproval", changes=False,
    ),
    _line("Test, refresh, enable and disable servers, reset breakers", "operate_server", "reset_breaker"),
    _line("Add servers and change how they are reached, change tools", "add_server", "change_server", "change_tool"),
    _line("Set budgets", "add_budget", "change_budget", "delete_budget"),
    _line("Approve what tools say of themselves", "approve_definition"),
    _line("Approve calls that wait for a person", "decide_approval"),
]  # fmt: skip
