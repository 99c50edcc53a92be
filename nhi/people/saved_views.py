"""Saves and removes a person's list views."""

from uuid import UUID

from django.db import IntegrityError, transaction

from common.errors import Duplicate, FieldError, NotAllowed
from nhi.actors import Actor
from nhi.audit import events
from nhi.models import SavedView
from nhi.validation import Problems

#: Per person and page. A longer list would not be a shortcut.
MAX_VIEWS = 20


def create(*, actor: Actor, page: str, name: str, query: str, shared: bool = False) -> SavedView:
    """Save the filters and the order of a list under a name. Everyone sees shared views."""
    user_id = _require_person(actor)
    problems = Problems()
    problems.check_line("name", name, max_length=64, required=True)
    problems.unless(len(query) <= 2000, "query", "This view has too many filters to be kept.")
    view_count = SavedView.objects.filter(user_id=user_id, page=page).count()
    problems.unless(view_count < MAX_VIEWS, "name", f"You have {MAX_VIEWS} views of this list. Remove one first.")
    problems.raise_if_any()
    view = SavedView(user_id=user_id, page=page, name=name.strip(), query=query, shared=shared)
    try:
        with transaction.atomic():
            view.save(force_insert=True)
            events.write(
                "saved_view.created", actor=actor, subject=view, after={"page": page, "query": query, "shared": shared}
            )
    except IntegrityError as error:
        fields = [FieldError("name", "You have a view of this name.")]
        raise Duplicate(f"You have a view {name} of this list.", fields=fields) from error
    return view


def remove(*, actor: Actor, view: SavedView) -> None:
    if view.user_id != _require_person(actor):
        raise NotAllowed("Only who saved this view may remove it.")
    with transaction.atomic():
        events.write("saved_view.removed", actor=actor, subject=view, before={"page": view.page, "query": view.query})
        view.delete()


def _require_person(actor: Actor) -> UUID:
    if not actor.is_person or actor.only_reads or actor.id is None:
        raise NotAllowed("You may not save views.")
    return actor.id
