"""What the four roles may do with agents that run here, as lines of the table "Who may do what"."""

from nhi.console.console_role_rights import RIGHTS, RoleRight
from supervisor.rights import ROLES


def _line(words: str, *codenames: str, changes: bool = True) -> RoleRight:
    return RoleRight(words, frozenset(codenames), changes, ROLES)


RIGHTS += [
    _line(
        "See agents that run here, their runs, sessions and schedules",
        "view_agent", "view_execution", "view_session", "view_schedule", changes=False,
    ),
    _line("Run agents, talk to them, stop runs", "run_agent", "cancel_execution"),
    _line("Switch agents off and on; pause, resume and run schedules", "operate_agent", "operate_schedule"),
    _line("Add agents that run here and change them", "add_agent", "change_agent"),
    _line("Add schedules and change them", "add_schedule", "change_schedule"),
]  # fmt: skip
