"""What every path does before its verb: who calls, whether they only read, what the path names."""

from typing import Any, ClassVar, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from common.api.operations import Operation, of_handler
from common.errors import InvalidInput, NotAllowed, NotFound, RecordUnavailable
from nhi.actors import Actor
from nhi.api.authentication import Caller
from nhi.audit import events
from nhi.people import sessions

M = TypeVar("M", bound=Model)
SAFE = frozenset({"GET", "HEAD"})


class ApiView(APIView):
    """The order is a contract: 401, then 403 for who only reads, then 404, then rights, and only then the body."""

    http_method_names = ["get", "head", "post", "patch", "put", "delete"]
    #: Whether an auditor's look at it is on record.
    opens: ClassVar[bool] = True

    @property
    def caller(self) -> Caller:
        caller: Any = self.request.user
        assert isinstance(caller, Caller)  # the permission class lets nobody else in
        return caller

    @property
    def actor(self) -> Actor:
        return self.caller.actor

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self._refuse_reader(request)
        self.admit()
        self.find(**kwargs)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        return super().finalize_response(request, self._on_record(request, response), *args, **kwargs)

    def admit(self) -> None:
        """Refuse who may not look here at all, whatever the path names."""

    def find(self, **path: UUID) -> None:
        """Load what the path names. Views with an id in their path say how; whoever may not see it gets a 404."""

    def visible(self, rows: Any, pk: UUID) -> Any:
        found = rows.visible_to(self.actor).filter(pk=pk).first()
        if found is None:
            raise NotFound
        return found

    def named(self, rows: QuerySet[M], field: str, pk: UUID) -> M:
        """The row that an id in the body names; absent and hidden ones are told alike."""
        found: M | None = rows.visible_to(self.actor).filter(pk=pk).first()  # type: ignore[attr-defined]  # every listed model's queryset has it
        if found is None:
            raise InvalidInput.for_field(field, "There is nothing with this id that you can see.")
        return found

    def require(self, operation: Operation) -> None:
        if operation.needs:
            self.actor.require(operation.needs, operation.summary[:1].lower() + operation.summary[1:])
        if operation.proof and self.caller.session_user is not None:
            # What it hands out would outlive a session that somebody else has taken over.
            sessions.require_fresh_proof(self.request._request, self.caller.session_user)

    def _on_record(self, request: Request, response: Response) -> Response:
        """An auditor is given nothing that is not on record; what they may send at all is a question."""
        declared = self._declared(request)
        if response.status_code >= 400 or declared is None or not (self.opens and self.actor.only_reads):
            return response
        try:
            events.write_page_opened(request, actor=self.actor, title=declared.summary)
        except RecordUnavailable as error:
            return self.handle_exception(error)
        return response

    def _declared(self, request: Request) -> Operation | None:
        return of_handler(getattr(self, (request.method or "").lower(), None))

    def _refuse_reader(self, request: Request) -> None:
        if request.method in SAFE or not self.actor.only_reads:
            return
        declared = self._declared(request)
        if declared is None or not declared.reads:
            raise NotAllowed("An auditor reads everything and changes nothing.", details={"reason": "only_reads"})


class NoSuchPath(ApiView):
    """Whatever the API does not serve; it is not part of the schema."""

    schema = None

    def find(self, **_path: Any) -> None:
        raise NotFound
