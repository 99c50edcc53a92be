"""Adding a server and changing one: what would run is shown as it is, before it is saved."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path

from common.console.pages import Crumb, link, render
from common.errors import Conflict, InvalidInput, NotAllowed
from mcp.admin.servers import diagnosis
from mcp.admin.servers.cells import command_line, digest
from mcp.admin.servers.form import AddForm, ServerForm, initial
from mcp.admin.servers.hub import OfServer
from mcp.choices import Connection, DefinitionState, Transport
from mcp.models import Server, Tool
from mcp.servers import lifecycle
from nhi.console.base import ActorPage
from nhi.console.row_by_name_fields import bind_people_fields
from nhi.models import User

#: What must be readable before anything can be said of what would run.
READ = frozenset({"timeout", *lifecycle.REACH_FIELDS})


class Form(ActorPage):
    """Both forms: the command line that was looked at comes back with them, as its hash."""

    template = "admin/mcp/servers/form.html"

    def fitting(self, data: Any = None, first: dict[str, Any] | None = None) -> ServerForm:
        raise NotImplementedError

    def save(self, form: ServerForm) -> HttpResponse | None:
        """Call the verb and say what came of it; None where it refused after all."""
        raise NotImplementedError

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        form = self.fitting(request.POST)
        look = self.examine(form)
        if not form.errors and self.unseen(form):
            return self.page(form=form, status=409, look=look)
        done = None if form.errors else self.save(form)
        return done or self.page(form=form, status=422, look=look)

    def foresee(self, form: ServerForm) -> dict[str, Any]:
        """What saving would do, for who is about to: the exact command line, and what must be approved again."""
        given = form.given
        return {
            "line": command_line(given["command"], given["args"]),
            "env": [f"{name}={value}" for name, value in given["env"].items()],
            "shown": digest(given),
            "again": self.again(form),
        }

    def again(self, form: ServerForm) -> str:
        return ""

    def look_over(self, form: ServerForm) -> None:
        """Raise what the verb would refuse."""
        raise NotImplementedError

    def examine(self, form: ServerForm) -> dict[str, Any] | None:
        """What form and verb refuse, said together; and what saving would do, where that can be read."""
        form.is_valid()
        look = self.foresee(form) if set(form.cleaned_data) >= READ else None
        try:
            self.look_over(form)
        except (InvalidInput, Conflict) as error:
            form.refuse(error)
        return look

    def unseen(self, form: ServerForm) -> bool:
        """Whether this would run what nobody has seen on the page as it would be run."""
        process = form.given["transport"] == Transport.STDIO
        return process and self.request.POST.get("shown", "") != digest(form.given)

    def tell_of(self, server: Server) -> None:
        """What came of it: the hub that follows shows the rest."""
        if server.status == Connection.READY:
            messages.success(self.request, f"{server} is ready.{_waiting(server)}")
        else:
            said = f"{server} was saved and is {server.status.lower()}: {server.last_error or server.status_reason}"
            messages.warning(self.request, f"{said} {diagnosis.remedy(server)}")


class Add(Form):
    title = "Add a server"

    def check(self) -> None:
        self.actor.require("mcp.add_server", "add servers")
        if self.actor.only_reads:
            raise NotAllowed("You may not add servers.")

    def context(self) -> dict[str, Any]:
        return {
            "crumb": Crumb("Servers", link("mcp_server_changelist")),
            "back": link("mcp_server_changelist"),
            "button": "Add server",
            "preview_url": link("mcp_server_add_preview"),
        }

    def fitting(self, data: Any = None, first: dict[str, Any] | None = None) -> ServerForm:
        return bind_people_fields(AddForm(data, initial=first), self.actor)

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        return self.page(form=self.fitting(first={"owner": self.actor.name}))

    def save(self, form: ServerForm) -> HttpResponse | None:
        made = self._create(form)
        if made is None:
            return None
        self.tell_of(made)
        return HttpResponseRedirect(link("mcp_server_hub", made.pk))

    def look_over(self, form: ServerForm) -> None:
        data = form.cleaned_data
        lifecycle.check_new(
            name=data.get("name", ""),
            owner=data.get("owner") or User(),
            configuration=form.given,
            secret_values=_values(form),
        )

    def _create(self, form: ServerForm) -> Server | None:
        data = form.cleaned_data
        try:
            return lifecycle.create(
                actor=self.actor,
                name=data["name"],
                owner=data["owner"],
                configuration=form.given,
                secret_values=_values(form),
            )
        except (InvalidInput, Conflict) as error:
            form.refuse(error)
            return None


class Edit(OfServer, Form):
    def check(self) -> None:
        super().check()
        if self.actor.only_reads:
            raise NotAllowed(f"You may not change {self.server.name}.")
        self.actor.require("mcp.change_server", "change servers")

    def context(self) -> dict[str, Any]:
        return {
            "title": f"Edit {self.server.name}",
            "server": self.server,
            "crumb": Crumb(self.server.name, self.url("hub")),
            "back": self.url("hub"),
            "button": "Save",
            "preview_url": self.url("change_preview"),
        }

    def fitting(self, data: Any = None, first: dict[str, Any] | None = None) -> ServerForm:
        known = list(self.server.secrets.defer("sealed"))
        return bind_people_fields(ServerForm(data, initial=first, known=known), self.actor, self.server.owner)

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        return self.page(form=self.fitting(first=initial(self.server)))

    def save(self, form: ServerForm) -> HttpResponse | None:
        reached, fresh = self._reached(form), self._change(form)
        if fresh is None:
            return None
        if reached and fresh.enabled:
            self.tell_of(fresh)
        else:
            messages.success(self.request, f"{fresh} was changed.")
        return HttpResponseRedirect(self.url("hub"))

    def again(self, form: ServerForm) -> str:
        approved = Tool.objects.filter(server=self.server, state=DefinitionState.APPROVED).count()
        if not approved or not self._reached(form):
            return ""
        tools = "1 approved tool is" if approved == 1 else f"{approved} approved tools are"
        return f"This is another way to reach it: {tools} quarantined until somebody other than you approves them."

    def _reached(self, form: ServerForm) -> bool:
        given = form.given
        return bool(form.secret_values) or any(
            given[name] != getattr(self.server, name) for name in lifecycle.REACH_FIELDS
        )

    def look_over(self, form: ServerForm) -> None:
        owner = form.cleaned_data.get("owner") or self.server.owner
        lifecycle.check_change(server=self.server, secret_values=form.secret_values, owner=owner, **form.given)

    def _change(self, form: ServerForm) -> Server | None:
        try:
            return lifecycle.change(
                actor=self.actor,
                server=self.server,
                owner=form.cleaned_data["owner"],
                secret_values=form.secret_values,
                **form.given,
            )
        except (InvalidInput, Conflict) as error:
            form.refuse(error)
            return None


class AddPreview(Add):
    """What would run, worked out while one types. It reads and changes nothing."""

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        return preview(self, request)


class EditPreview(Edit):
    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        return preview(self, request)


def preview(page: Form, request: HttpRequest) -> HttpResponse:
    form = page.fitting(request.POST)
    form.is_valid()
    look = page.foresee(form) if set(form.cleaned_data) >= READ else None
    return render(request, "admin/mcp/servers/look.html", title="What would run", look=look)


def _values(form: ServerForm) -> dict[str, str]:
    """Of a new server nothing is taken away."""
    return {name: value or "" for name, value in form.secret_values.items()}


def _waiting(server: Server) -> str:
    count = Tool.objects.filter(server=server, state__in=[DefinitionState.PENDING, DefinitionState.QUARANTINED]).count()
    if not count:
        return ""
    return " 1 tool needs an approval before it is called." if count == 1 else f" {count} tools need an approval first."


URLS = [
    path("add/", Add.as_view(), name="mcp_server_add"),
    path("add/preview/", AddPreview.as_view(), name="mcp_server_add_preview"),
    path("<uuid:pk>/change/", Edit.as_view(), name="mcp_server_change"),
    path("<uuid:pk>/change/preview/", EditPreview.as_view(), name="mcp_server_change_preview"),
]
