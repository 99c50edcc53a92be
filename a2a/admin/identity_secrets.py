"""What signs the callbacks of an identity: a part of the tab that holds its credentials."""

from typing import Any
from urllib.parse import urlencode

from a2a.models import WebhookSecret
from common.console.pages import link
from nhi.actors import Actor
from nhi.admin.identities import hub
from nhi.admin.identities.hub import Part
from nhi.models import Identity


def signed(actor: Actor, identity: Identity) -> dict[str, Any]:
    """How many there are, and the list of them."""
    held = WebhookSecret.objects.visible_to(actor).filter(owner_id=identity.pk)
    where = urlencode({"owner": identity.name})
    return {"count": held.count(), "url": f"{link('a2a_webhooksecret_changelist')}?{where}"}


hub.add_part(Part("credentials", "admin/a2a/deliveries/secrets_of.html", signed))
