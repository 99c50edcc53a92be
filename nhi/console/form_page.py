"""A page that is one form: shown, refused with all that is wrong with it, or saved by one verb."""

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from common import http_statuses
from common.console.forms import ConsoleForm
from common.errors import Conflict, InvalidInput
from nhi.console import names
from nhi.console.base import ActorPage

F = TypeVar("F", bound=ConsoleForm)


class FormPage(ActorPage, ABC, Generic[F]):
    """Subclasses make the form and call the verb; what the verb refuses stands beside the fields."""

    @abstractmethod
    def fitting(self, data: Any = None) -> F:
        """The form as it is opened, or holding what was typed."""

    @abstractmethod
    def save(self, form: F) -> str:
        """Call the verb, and say where to go."""

    def say_the_rest(self, form: F) -> None:
        """What the verb would find in the fields that could be read: all that is wrong is said at once."""

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
            place = self.save(form)
        except (InvalidInput, Conflict) as error:
            form.refuse(error)
            return self.drawn(form, status=http_statuses.status_for(error))
        return HttpResponseRedirect(place)

    def _form(self, data: Any = None) -> F:
        """Its fields that take names look among what the person may see."""
        form = self.fitting(data)
        names.bind_name_fields(form, self.actor)
        return form
