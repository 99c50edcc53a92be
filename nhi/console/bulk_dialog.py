"""Base class of a dialog that applies one operation to several rows, each with its own transaction and result."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from django.contrib import messages
from django.db.models import Model, QuerySet
from django.http import HttpResponse
from django.utils.functional import cached_property

from common.console import lists
from common.console.forms import ConsoleForm
from common.console.lists import Filter, Lookup
from common.console.pages import link, render
from common.errors import Conflict, NotAllowed
from nhi.access.bulk import ItemResult, attempt_item
from nhi.console.base import ActorDialog

R = TypeVar("R", bound=Model)


class BulkDialog(ActorDialog, Generic[R]):
    """Applies a verb to the selected rows that the actor may change. Rows that the verb does not fit are skipped.

    If the list can select all rows that match its filters, the dialog sets `filters` and `search` of the list.
    """

    template = "console/several.html"
    verb = ""
    #: The noun for a row: singular and plural.
    nouns = ("", "")
    #: `ItemResult.kind` of the results.
    kind = ""
    #: Name of the list's URL.
    list_name = ""
    filters: Sequence[Filter] = ()
    search: Sequence[Lookup] = ()
    order: Sequence[str] = ("-created_at", "-id")
    #: Maximum rows of one submission. For more rows, people repeat the operation.
    most = lists.MOST
    #: How to reach the other rows. "In the same way" is right only if changed rows no longer match the filter.
    others = "the others after that, in the same way"

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed(f"You may not {self.doing}.")

    @property
    def doing(self) -> str:
        """The action of this dialog as part of a sentence."""
        return f"{self.verb.lower()} {self.nouns[1]}"

    def rows(self) -> QuerySet[R]:
        """Return the rows that the actor may change. Rows that the actor can only see do not count."""
        raise NotImplementedError

    def fits(self, rows: QuerySet[R]) -> QuerySet[R]:
        """Filter to the rows that the verb fits, if all rows of the filter are selected. Other rows are not named."""
        return rows

    def misfit(self, _row: R) -> str:
        """Return why the verb does not fit this row, as the end of a sentence "It …", or an empty string."""
        return ""

    @cached_property
    def chosen(self) -> list[R]:
        return list(self.picked(self.rows()).order_by(*self.order)[: self.most + 1])

    def picked(self, rows: QuerySet[R]) -> QuerySet[R]:
        if not self.filters:
            return rows.filter(pk__in=lists.ticked(self.request))
        matching = lists.picked(self.request, rows, self.filters, self.search)
        return self.fits(matching) if lists.takes_all(self.request) else matching

    @cached_property
    def fitting(self) -> list[R]:
        return [row for row in self.chosen[: self.most] if not self.misfit(row)]

    @cached_property
    def skipped(self) -> list[tuple[R, str]]:
        return [(row, reason) for row in self.chosen[: self.most] if (reason := self.misfit(row))]

    def called(self, row: R) -> str:
        return str(row)

    def names(self) -> list[str]:
        """The names of the rows; the dialog shows the first few."""
        return [self.called(row) for row in self.fitting]

    def counted(self, count: int) -> str:
        return f"{count} {self.nouns[count != 1]}"

    @property
    def title(self) -> str:  # type: ignore[override]  # a property: the number depends on the request
        return f"{self.verb} {self.counted(len(self.fitting))}"

    @property
    def button(self) -> str:  # type: ignore[override]  # a property, as `title`
        return self.title if self.fitting else ""

    @property
    def typed(self) -> str:  # type: ignore[override]  # a property, as `title`
        return lists.to_type(len(self.fitting)) if self.danger else ""

    def context(self) -> dict[str, Any]:
        more_text = f"These are the newest {self.most}; {self.others}."
        return {
            "title": self.title,
            **lists.limit_names(self.names()),
            "skipped": [f"{self.called(row)}: {reason}" for row, reason in self.skipped],
            "skipped_why": ", ".join(Counter(reason for _, reason in self.skipped)),
            "more_left": more_text if len(self.chosen) > self.most else "",
        }

    def back(self) -> str:
        """Return the URL of the list with its current filters."""
        query = self.request.GET.copy()
        for name in ("id", "all"):
            query.pop(name, None)
        return f"{link(self.list_name)}?{query.urlencode()}" if query else link(self.list_name)

    def each(self, form: ConsoleForm) -> Callable[[R], Any]:
        """Return the operation on one row."""
        raise NotImplementedError

    def said(self, _count: int) -> str:
        """Return the message if every row succeeded, or an empty string to show the results of all rows instead."""
        return ""

    def act(self, form: ConsoleForm) -> str | HttpResponse:
        if not self.fitting:
            raise Conflict("There is none of them left to do this to. Nothing was changed.")
        verb = self.each(form)
        results = [
            attempt_item(self.kind, self.called(row), row.pk, lambda row=row: verb(row), success_result="done")
            for row in self.fitting
        ]  # fmt: skip
        if all(item.result == "done" for item in results) and (message := self.said(len(results))):
            messages.success(self.request, message)
            return self.back()
        return self.told(results)

    def told(self, results: Sequence[ItemResult]) -> HttpResponse:
        """Render the results: first the rows that failed, then those that succeeded, then those that were skipped."""
        sorted_results = sorted(results, key=lambda item: item.result == "done")
        skipped_results = [
            ItemResult("skipped", self.kind, self.called(row), row.pk, message=f"It {reason}.")
            for row, reason in self.skipped
        ]  # fmt: skip
        done = sum(item.result == "done" for item in results)
        title = f"{self.verb}: {done} of {len(results) + len(skipped_results)} done"
        return render(
            self.request,
            "console/results.html",
            title=title,
            results=[*sorted_results, *skipped_results],
            back=self.back(),
        )
