"""Dialogs that end what signs callbacks: those before the present secret at once, or a secret for good."""

from typing import Any

from django.contrib import messages
from django.urls import path

from a2a import webhook_ends, webhooks
from a2a.admin.webhook_secrets_beside import revoking, signs_alone
from a2a.models import WebhookSecret
from common.console.confirmation_dialogs import ApiExample, Effect, counted
from common.console.forms import ConsoleForm, ReasonField
from common.console.pages import link
from common.errors import NotAllowed, NotFound
from nhi.console.base import ActorDialog


class RevokeForm(ConsoleForm):
    reason = ReasonField("It leaked", "Every receiver has changed over", "Owner asked")


class RemoveForm(ConsoleForm):
    reason = ReasonField("Its receiver was taken down", "Replaced by another", "It leaked")


class OfSecret(ActorDialog):
    """One secret, for whoever may rotate it."""

    kwargs: dict[str, Any]
    secret: WebhookSecret
    refusal = webhook_ends.MAY_NOT

    def check(self) -> None:
        seen = WebhookSecret.objects.visible_to(self.actor).filter(pk=self.kwargs["pk"])
        found = seen.defer("sealed", "sealed_previous").first()
        if found is None:
            raise NotFound
        self.secret = found
        if not webhooks.may_rotate(self.actor, found):
            raise NotAllowed(self.refusal)

    def back(self) -> str:
        return link("a2a_webhooksecret_changelist")

    @property
    def api(self) -> str:
        return f"/api/nhi/a2a/webhook-secrets/{self.secret.pk}"


class RevokePrevious(OfSecret):
    danger, leave, form_class = True, "Keep it", RevokeForm
    lead = "From now on the present secret signs alone. An attempt that is under way may be signed by both still."

    @property
    def button(self) -> str:  # type: ignore[override]  # what signs beside it is known once there is a secret
        return revoking(self.secret)

    def context(self) -> dict[str, Any]:
        alone = "It signs alone already." if signs_alone(self.secret) else ""
        return {"title": f"Revoke what signs beside {self.secret}", "impossible": alone}

    def effects(self) -> list[Effect]:
        return [
            _waiting(self.secret, "signed by the present one alone"),
            Effect("refused", 1, "Receivers that do not know the present one refuse callbacks from now on"),
            Effect(
                "trusted", 1, "If it leaked: receivers that still trust it can be deceived until they forget it too"
            ),
        ]

    def by_api(self) -> ApiExample:
        return ApiExample(f"{self.api}/revoke-previous", {"reason": "…"})

    def act(self, form: ConsoleForm) -> str:
        webhook_ends.revoke_previous(actor=self.actor, secret=self.secret, reason=form.cleaned_data["reason"])
        messages.success(self.request, f"From now on it signs alone: {self.secret}.")
        return self.back()


class Remove(OfSecret):
    button, danger, leave, form_class = "Remove", True, "Keep it", RemoveForm
    lead = "It signs nothing more, and what signs beside it now does not either. It cannot be made again."

    def context(self) -> dict[str, Any]:
        return {"title": f"Remove {self.secret}"}

    def effects(self) -> list[Effect]:
        after = webhook_ends.successor(self.secret)
        if after is None:
            instead = "a new one for any URL, which nobody has seen until it is rotated"
        else:
            instead = f"the one for {after.url_prefix}" if after.url_prefix else "the one for any URL"
        return [
            _waiting(self.secret, f"signed by {instead}"),
            Effect("later", 1, f"Later callbacks of {self.secret.owner_name} to its URLs are signed by {instead}"),
            Effect("refused", 1, "Receivers that know this one alone refuse them until they are given that one"),
        ]

    def by_api(self) -> ApiExample:
        return ApiExample(f"{self.api}?reason=…", method="DELETE")

    def act(self, form: ConsoleForm) -> str:
        webhook_ends.remove(actor=self.actor, secret=self.secret, reason=form.cleaned_data["reason"])
        messages.success(self.request, f"Removed: {self.secret}.")
        return self.back()


def _waiting(secret: WebhookSecret, how: str) -> Effect:
    many = webhook_ends.waiting(secret)
    return counted("waiting", many, f"{{}} delivery that waits is {how}", f"{{}} deliveries that wait are {how}")


URLS = [
    path("<uuid:pk>/revoke-previous/", RevokePrevious.as_view(), name="a2a_webhooksecret_revoke_previous"),
    path("<uuid:pk>/remove/", Remove.as_view(), name="a2a_webhooksecret_remove"),
]
