"""What the palette finds of servers and tools, and what may be done with a server."""

from collections.abc import Iterable

from django.db.models import Case, IntegerField, Value, When
from django.http import HttpRequest

from common.console import command_palette
from common.console.command_palette import PER_GROUP, Group, Hit
from common.console.pages import link
from common.ids import parse_uuid
from mcp.admin.servers import cells
from mcp.choices import DefinitionState
from mcp.models import Server, Tool
from nhi.actors import Actor
from nhi.console.request_actor import actor_of

#: Words that begin a verb on a server, and the verb.
VERBS = {"test": "test", "check": "test", "ping": "test", "disable": "disable", "off": "disable", "enable": "enable"}
ADDING = ("add server", "new server", "import server", "register server")


def find_servers_and_tools(request: HttpRequest, term: str) -> Iterable[Group]:
    if parse_uuid(term.lower()):
        return  # an id is looked up by who knows whose it is, and is no part of a name
    actor = actor_of(request)
    first, _, rest = term.partition(" ")
    verb = VERBS.get(first.lower(), "") if rest.strip() else ""
    servers = _servers(actor, rest.strip() if verb else term)
    verbs = Group("Gateway verbs", _verbs(actor, servers, verb, term))
    found = Group("Servers", [_hit(server) for server in servers])
    yield from (verbs, found) if verb else (found, verbs)
    yield Group("Tools", _tools(actor, term))


def _servers(actor: Actor, term: str) -> list[Server]:
    seen = Server.objects.visible_to(actor).filter(name__icontains=term)
    return list(seen.defer("instructions", "last_handshake").order_by(_prefix_first("name", term), "name")[:PER_GROUP])


def _hit(server: Server) -> Hit:
    return Hit(server.name, link("mcp_server_hub", server.pk), "dns", f"Server, {cells.standing(server).label.lower()}")


def _tools(actor: Actor, term: str) -> list[Hit]:
    seen = Tool.objects.visible_to(actor).filter(identity__name__icontains=term).select_related("identity")
    rows = seen.order_by(_prefix_first("identity__name", term), "identity__name")[:PER_GROUP]
    return [
        Hit(
            tool.identity.name,
            link("mcp_tool_hub", tool.pk),
            "build",
            f"Definition, {DefinitionState(tool.state).label.lower()}",
        )
        for tool in rows
    ]


def _verbs(actor: Actor, servers: list[Server], verb: str, term: str) -> list[Hit]:
    if actor.only_reads:
        return []
    hits: list[Hit] = []
    if actor.may("mcp.add_server") and any(words.startswith(term.lower()) for words in ADDING):
        hits.append(Hit("Add a server…", link("mcp_server_add"), "add"))
    if actor.may("mcp.operate_server"):
        hits += [hit for server in servers[:2] for name, hit in _operating(server) if not verb or name == verb]
    return hits


def _operating(server: Server) -> list[tuple[str, Hit]]:
    def hit(verb: str, title: str, icon: str) -> tuple[str, Hit]:
        return verb, Hit(title, link(f"mcp_server_{verb}", server.pk), icon)

    if not server.enabled:
        return [hit("enable", f"Enable {server.name}…", "power")]
    return [
        hit("test", f"Test {server.name}", "network_check"),
        hit("disable", f"Disable {server.name}…", "power_settings_new"),
    ]


def _prefix_first(column: str, term: str) -> Case:
    begins = When(**{f"{column}__istartswith": term, "then": Value(0)})
    return Case(begins, default=Value(1), output_field=IntegerField())


command_palette.add_palette_providers(find_servers_and_tools)
