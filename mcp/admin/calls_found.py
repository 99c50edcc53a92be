"""What the palette makes of a pasted id: the call, or the calls of a request or a run."""

from collections.abc import Iterable

from django.db.models import Q
from django.http import HttpRequest

from common.console import command_palette
from common.console.command_palette import Group, Hit
from common.console.pages import link
from common.ids import parse_uuid
from common.templatetags.console import spell_invisible
from mcp.admin.calls import cells
from nhi.console.request_actor import actor_of
from nhi.models import InvocationLog


def find_calls(request: HttpRequest, term: str) -> Iterable[Group]:
    known = parse_uuid(term.lower())
    if known is None:
        return
    seen = InvocationLog.objects.visible_to(actor_of(request))
    rows = list(seen.filter(Q(pk=known) | Q(request_id=known) | Q(run_id=known)).order_by("-timestamp")[:2])
    if len(rows) == 1:
        url, said = link("nhi_invocationlog_call", rows[0].pk), cells.outcome_text(rows[0])
        yield Group("Calls", [Hit(spell_invisible(f"Call of {rows[0]}"), url, "receipt_long", said)])
    elif rows:
        url = f"{link('nhi_invocationlog_changelist')}?find={known}"
        yield Group("Calls", [Hit(f"Calls of request {known}", url, "receipt_long", "Invocation log")])


command_palette.add_palette_providers(find_calls)
