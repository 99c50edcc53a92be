"""One verb for several rows: counted first, then each in a transaction of its own, with a result of its own."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from django.contrib import messages
from django.db.models import Model, QuerySet
from django.http import HttpResponse
from django.utils.functional import cached_property

from common.console import several
from common.console.forms import ConsoleForm
from common.console.lists import Filter, Lookup
from common.console.pages import link, render
from common.errors import Conflict, NotAllowed
from nhi.access.access import ItemResult, attempt_item
from nhi.console.base import ActorDialog

R = TypeVar("R", bound=Model)


class BulkDialog(ActorDialog, Generic[R]):
    """Works on what was ticked and may be acted on; what the verb does not fit is skipped and said.

    Where a list lets its verbs take all that its filters leave, their dialogs name these.
    """

    template = "console/several.html"
    verb = ""
    #: One of them, and many.
    nouns = ("", "")
    #: What a result calls one of them.
    kind = ""
    #: Name of the list's URL.
    list_name = ""
    filters: Sequence[Filter] = ()
    search: Sequence[Lookup] = ()
    order: Sequence[str] = ("-created_at", "-id")
    #: In one go; of more, the first, and then again.
    most = several.MOST
    #: How one gets to the others: in the same way only where the verb takes from the filter what it was done to.
    others = "the others after that, in the same way"

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed(f"You may not {self.doing}.")

    @property
    def doing(self) -> str:
        """What one does here, as a part of a sentence."""
        return f"{self.verb.lower()} {self.nouns[1]}"

    def rows(self) -> QuerySet[R]:
        """What one may act on: of what one can only see, nothing is counted."""
        raise NotImplementedError

    def fits(self, rows: QuerySet[R]) -> QuerySet[R]:
        """What the verb fits: of all that the filters leave, the others are not even named."""
        return rows

    def misfit(self, _one: R) -> str:
        """Why the verb has nothing to do for this one, as the end of "It …"; empty when it has."""
        return ""

    @cached_property
    def chosen(self) -> list[R]:
        return list(self.picked(self.rows()).order_by(*self.order)[: self.most + 1])

    def picked(self, rows: QuerySet[R]) -> QuerySet[R]:
        if not self.filters:
            return rows.filter(pk__in=several.ticked(self.request))
        found = several.picked(self.request, rows, self.filters, self.search)
        return self.fits(found) if several.takes_all(self.request) else found

    @cached_property
    def fitting(self) -> list[R]:
        return [one for one in self.chosen[: self.most] if not self.misfit(one)]

    @cached_property
    def skipped(self) -> list[tuple[R, str]]:
        return [(one, why) for one in self.chosen[: self.most] if (why := self.misfit(one))]

    def called(self, one: R) -> str:
        return str(one)

    def names(self) -> list[str]:
        """What the dialog names, the first few of them."""
        return [self.called(one) for one in self.fitting]

    def counted(self, count: int) -> str:
        return f"{count} {self.nouns[count != 1]}"

    @property
    def title(self) -> str:  # type: ignore[override]  # the number is known once there is a request
        return f"{self.verb} {self.counted(len(self.fitting))}"

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        return self.title if self.fitting else ""

    @property
    def typed(self) -> str:  # type: ignore[override]  # the same
        return several.to_type(len(self.fitting)) if self.danger else ""

    def context(self) -> dict[str, Any]:
        left = f"These are the newest {self.most}; {self.others}."
        return {
            "title": self.title,
            **several.named(self.names()),
            "skipped": [f"{self.called(one)}: {why}" for one, why in self.skipped],
            "skipped_why": ", ".join(Counter(why for _, why in self.skipped)),
            "more_left": left if len(self.chosen) > self.most else "",
        }

    def back(self) -> str:
        """The list, narrowed as it was."""
        query = self.request.GET.copy()
        for name in ("id", "all"):
            query.pop(name, None)
        return f"{link(self.list_name)}?{query.urlencode()}" if query else link(self.list_name)

    def each(self, form: ConsoleForm) -> Callable[[R], Any]:
        """The verb for one of them."""
        raise NotImplementedError

    def said(self, _count: int) -> str:
        """What the list says where each was done; empty where people want to read of each."""
        return ""

    def act(self, form: ConsoleForm) -> str | HttpResponse:
        if not self.fitting:
            raise Conflict("There is none of them left to do this to. Nothing was changed.")
        verb = self.each(form)
        results = [
            attempt_item(self.kind, self.called(one), one.pk, lambda one=one: verb(one), done="done")
            for one in self.fitting
        ]  # fmt: skip
        if all(item.result == "done" for item in results) and (said := self.said(len(results))):
            messages.success(self.request, said)
            return self.back()
        return self.told(results)

    def told(self, results: Sequence[ItemResult]) -> HttpResponse:
        """What became of each: first of those that were not done, last of those that were skipped."""
        sorted_out = sorted(results, key=lambda item: item.result == "done")
        over = [
            ItemResult("skipped", self.kind, self.called(one), one.pk, message=f"It {why}.")
            for one, why in self.skipped
        ]  # fmt: skip
        done = sum(item.result == "done" for item in results)
        title = f"{self.verb}: {done} of {len(results) + len(over)} done"
        return render(self.request, "console/results.html", title=title, results=[*sorted_out, *over], back=self.back())
