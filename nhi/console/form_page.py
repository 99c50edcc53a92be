"""Base class of a page that is one form: shown, refused with all its errors, or saved by one operation."""

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from common import http_statuses
from common.console.forms import ConsoleForm
from common.errors import Conflict, InvalidInput
from nhi.console import row_by_name_fields
from nhi.console.base import ActorPage

F = TypeVar("F", bound=ConsoleForm)


class FormPage(ActorPage, ABC, Generic[F]):
    """A page with one form that calls an operation, whose errors appear next to the fields."""

    @abstractmethod
    def fitting(self, data: Any = None) -> F:
        """Return the form, unbound or with the submitted data."""

    @abstractmethod
    def save(self, form: F) -> str:
        """Call the operation and return the URL to redirect to."""

    def say_the_rest(self, form: F) -> None:
        """Add the errors that the operation would find in the valid fields, so that all errors appear at once."""

    def drawn(self, form: F, *, status: int = 200) -> HttpResponse:
        return self.page(form=form, status=status)

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        return self.drawn(self._form())

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        form = self._form(request.POST)
        if not form.is_valid():
            self.say_the_rest(form)
            return self.drawn(form, status=422)
        try:
            url = self.save(form)
        except (InvalidInput, Conflict) as error:
            form.refuse(error)
            return self.drawn(form, status=http_statuses.status_for(error))
        return HttpResponseRedirect(url)

    def _form(self, data: Any = None) -> F:
        """Return the form with name fields that accept the rows visible to the actor."""
        form = self.fitting(data)
        row_by_name_fields.bind_name_fields(form, self.actor)
        return form
