"""What the list of agents shows of each."""

from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from common.console import badges
from common.console.badges import Badge
from common.console.lists import Column
from common.console.pages import link, link_if_any
from common.templatetags.console import badge, when
from nhi.choices import State
from nhi.console import columns
from nhi.console import state_badges as standing
from supervisor import admission
from supervisor.admin import executions_cells
from supervisor.choices import Mode
from supervisor.models import Agent


def switch(agent: Agent) -> Badge:
    return badges.find("agent_switch", "on" if agent.enabled else "off")


def slots(row: Any) -> str:
    most = row.max_concurrent_executions
    return f"{row.used} of {most}" if most else f"{row.used}, no limit"


def queue(row: Any) -> str:
    """Beside the queue that people set; it is full when the free slots have no room for another either."""
    if row.waiting >= admission.may_wait(row, row.used):
        return f"{row.waiting}, full"
    return f"{row.waiting}, queue of {row.queue_depth}"


def free(row: Any) -> str:
    """That more may wait than its queue says, as long as there are slots for them."""
    count = max(0, (row.max_concurrent_executions or 0) - row.used)
    if not count:
        return ""
    return "A free slot takes one beside it." if count == 1 else f"{count} free slots take as many beside it."


def _identity(row: Any) -> SafeString:
    return format_html('<a href="{}">{}</a>', link("nhi_identity_hub", row.identity_id), row.identity.name)


def _last(row: Any) -> SafeString:
    run = row.last_run
    if run is None:
        return format_html('<span class="gh-subtle">{}</span>', "never ran")
    url = link("supervisor_execution_hub", run.pk)
    shown = '{} <a class="gh-wide" href="{}">#{}</a> <span class="gh-subtle gh-wide">{}</span>'
    return format_html(shown, executions_cells.state(run), url, run.number, when(run.created_at))


def _last_text(row: Any) -> str:
    return executions_cells.state_text(row.last_run) if row.last_run else ""


def _run(row: Any) -> SafeString:
    if not row.run_url:
        return format_html('<span class="gh-subtle">{}</span>', row.not_run)
    word = "Talk" if row.mode == Mode.INTERACTIVE else "Run"
    return format_html(
        '<a class="gh-btn gh-btn--small" href="{}">{}<span class="gh-hidden"> {}</span></a>',
        row.run_url,
        word,
        row.name,
    )


def unable(agent: Agent, whose: str = "It", its: str = "Its") -> str:
    """Why nothing of it is started now, said of "it", or of the agent of a run."""
    if not agent.enabled:
        return f"{whose} is switched off."
    state = standing.identity(agent.identity)
    return "" if state == badges.of(State.ACTIVE) else f"{its} identity is {state.label.lower()}."


def not_run(agent: Agent) -> str:
    """The same in a word, for a cell."""
    if not agent.enabled:
        return "off"
    state = standing.identity(agent.identity)
    return "" if state == badges.of(State.ACTIVE) else state.label.lower()


def way_to_run(agent: Agent) -> str:
    """Where a run is asked for; of one that holds conversations, where one is opened."""
    if agent.mode == Mode.INTERACTIVE:
        return link_if_any("supervisor_session_open", agent.pk)
    return link("supervisor_agent_run", agent.pk)


COLUMNS = (
    Column("Name", lambda row: row.name, str, "name", narrow=True),
    Column("Identity", _identity, lambda row: row.identity.name, "identity__name"),
    columns.state("Switch", switch, lambda row: badge(switch(row)), sort="enabled", narrow=False),
    columns.plain("Slots in use", slots),
    columns.plain("Waiting", queue),
    Column("Last run", _last, _last_text, narrow=True),
    Column("Run it", _run, lambda row: row.not_run, narrow=True),
)
