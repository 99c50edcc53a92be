"""What the four roles may do with tasks, as lines of the table "Who may do what"."""

from a2a.rights import ROLES
from nhi.console.console_role_rights import RIGHTS, RoleRight


def _line(words: str, *codenames: str, changes: bool = True) -> RoleRight:
    return RoleRight(words, frozenset(codenames), changes, ROLES)


RIGHTS += [
    _line("See every task between agents", "view_task", changes=False),
    _line("Send tasks to any agent, cancel any task", "send_task", "cancel_task"),
    _line("See what callbacks of tasks were delivered", "view_delivery", "view_webhooksecret", changes=False),
    _line("Have callbacks delivered again, or called off", "redeliver_delivery", "disable_delivery"),
    _line("Make, rotate and remove webhook secrets of identities", "rotate_webhooksecret"),
    _line("See how every agent is told of and reached", "view_agentcard", "view_endpoint", changes=False),
    _line("Change cards and endpoints of agents", "change_agentcard", "change_endpoint"),
    _line("See what does the tasks of every agent", "view_runtime", changes=False),
    _line("Choose what does the tasks of agents", "change_runtime"),
    _line("Send tasks in the name of an identity", "send_task_for_another"),
]
