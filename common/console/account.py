"""The account menu. Each app adds links to pages about the user's own account."""

from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse


@dataclass(frozen=True)
class Entry:
    title: str
    icon: str
    #: Name of the page's URL, with its namespace.
    page: str

    @property
    def url(self) -> str:
        return reverse(self.page)


_entries = [Entry("Change password", "key", "admin:password_change")]


def add_account_links(*entries: Entry) -> None:
    _entries.extend(entries)


def links(_request: HttpRequest) -> list[Entry]:
    return list(_entries)
