"""One person: may they come in, how well proven, with which roles, and what is theirs?"""

from datetime import datetime
from typing import Any

from allauth.mfa.models import Authenticator
from django.urls import path
from django.utils.functional import cached_property

from common.console import badges
from common.console.pages import Control, Crumb, link
from common.errors import NotFound
from nhi.access import rights
from nhi.console import event_sentences
from nhi.console.base import ActorMixin, ActorPage
from nhi.console.console_role_rights import role_labels_of
from nhi.identities import handover
from nhi.models import AuditEvent, Credential, Identity, User, UserPermission
from nhi.people import people, sign_in_notices, sign_in_throttle

SHOWN = 50
RECENT = 10
WAYS = {"totp": "Authenticator app", "webauthn": "Passkey", "recovery_codes": "Recovery codes"}


class OfPerson(ActorMixin):
    """A page or dialog about one person whom the actor may see."""

    kwargs: dict[str, Any]

    def check(self) -> None:
        super().check()
        assert self.person

    @cached_property
    def person(self) -> User:
        seen = User.objects.visible_to(self.actor).prefetch_related("groups")
        found: User | None = seen.filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        return found

    def url(self, page: str) -> str:
        return link(f"nhi_user_{page}", self.person.pk)

    def back(self) -> str:
        return self.url("hub")


class Hub(OfPerson, ActorPage):
    template = "nhi/people/person.html"

    def context(self) -> dict[str, Any]:
        one = self.person
        return {
            "title": one.username,
            "person": one,
            "state": badges.find("person", "active" if one.is_active else "deactivated"),
            "roles": role_labels_of(one),
            "factors": self._factors,
            "password_set": sign_in_notices.last_password_set(user=one),
            "locked_until": self._locked_until,
            "owned": self._owned,
            "tokens": self._tokens(),
            "rights": self._rights(),
            "recent": self._recent(),
            "crumb": Crumb("People and roles", link("nhi_user_changelist")),
            "controls": self._controls(),
            "more": self._more(),
        }

    @cached_property
    def _owned(self) -> list[Identity]:
        return list(handover.identities_of(self.person)[:SHOWN])

    @cached_property
    def _factors(self) -> list[tuple[str, Any, Any]]:
        rows = Authenticator.objects.filter(user=self.person).order_by("type", "created_at")
        return [(WAYS.get(row.type, row.type), row.created_at, row.last_used_at) for row in rows]

    @cached_property
    def _locked_until(self) -> datetime | None:
        return sign_in_throttle.locked_until(username=self.person.username)

    def _tokens(self) -> list[Credential]:
        seen = Credential.objects.visible_to(self.actor).filter(user=self.person).defer("digest")
        return list(seen.order_by("-created_at")[:SHOWN])

    def _rights(self) -> list[UserPermission]:
        seen = UserPermission.objects.visible_to(self.actor).live().filter(user=self.person)
        return list(seen.select_related("nhi").order_by("nhi__name")[:SHOWN])

    def _recent(self) -> list[event_sentences.EventSentence]:
        """What they did and what was done to them: an index answers each, none answers both at once."""
        seen = AuditEvent.objects.visible_to(self.actor).exclude(event="page.opened").order_by("-at", "-id")
        about = {
            row.pk: row for key in ("subject_id", "actor_id") for row in seen.filter(**{key: self.person.pk})[:RECENT]
        }
        return event_sentences.event_sentences(
            sorted(about.values(), key=lambda row: (row.at, row.pk), reverse=True)[:RECENT]
        )

    @property
    def _changes(self) -> bool:
        return self.actor.may("nhi.change_user") and not self.actor.only_reads

    @property
    def _blocked(self) -> str:
        if self.person.pk == self.actor.id:
            return "Someone else must do this to your account."
        if self.person.is_superuser and not self.actor.is_superuser:
            return "Only a superuser changes a superuser."
        return ""

    def _controls(self) -> list[Control]:
        if not self._changes:
            return []
        if not self.person.is_active:
            blocked = self._blocked or people.why_not_reactivate(self.actor, self.person)
            return [Control("Reactivate", self.url("reactivate"), "person_check", blocked=blocked)]
        return [Control("Change roles", self.url("roles"), "badge", blocked=self._blocked)]

    def _more(self) -> list[Control]:
        if not self._changes:
            return []
        found = [
            Control("Hand over identities", self.url("hand_over"), "move_up", blocked=self._nothing_owned),
            Control("Set a new password", self.url("password"), "key", blocked=self._elsewhere),
            Control("Reset second factor", self.url("factor"), "phonelink_erase", blocked=self._no_factor),
            Control("Unlock sign-in", self.url("unlock"), "lock_open", blocked=self._not_locked),
        ]
        if self.person.is_active:
            found.append(
                Control("Deactivate", self.url("deactivate"), "person_off", danger=True, blocked=self._blocked)
            )
        return found

    @property
    def _nothing_owned(self) -> str:
        return "" if self._owned else "They own nothing and stand in for nobody."

    @property
    def _elsewhere(self) -> str:
        elsewhere = "" if self.person.has_usable_password() else "They sign in by single sign-on."
        return self._blocked or self._decides or elsewhere

    @property
    def _no_factor(self) -> str:
        return self._blocked or self._decides or ("" if self._factors else "There is none.")

    @cached_property
    def _decides(self) -> str:
        """Why this actor may not stand in for the person."""
        if self.actor.is_superuser or not rights.is_approver(self.person):
            return ""
        return "Only a superuser changes how somebody signs in who approves definitions, calls or wildcards."

    @property
    def _not_locked(self) -> str:
        return "" if self._locked_until else "It is not locked."


URLS = [path("<uuid:pk>/", Hub.as_view(), name="nhi_user_hub")]
