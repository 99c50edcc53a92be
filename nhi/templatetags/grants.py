"""Template tags of grants: the URLs of the pages about one grant."""

from django import template

from common.console.pages import link
from nhi.access.grants import PAIR_FIELDS
from nhi.models import Identity
from nhi.models.grants import Grant

register = template.Library()


@register.simple_tag
def grant_url(grant: Grant, page: str = "page", back: str = "") -> str:
    """Its page, or the dialog of a verb; `back` names the side on whose page the dialog is opened."""
    where = link(f"nhi_{grant._meta.model_name}_{page}", grant.pk)
    return f"{where}?back={back}" if back else where


@register.simple_tag
def why_url(grant: Grant) -> str:
    """The page that says whether the call is allowed now; empty for grants that no call goes by."""
    sides = [grant._meta.get_field(name) for name in PAIR_FIELDS[str(grant._meta.model_name)][:2]]
    if any(side.related_model is not Identity for side in sides):
        return ""
    # By their columns: a list that has joined one side only asks for no other.
    caller, target = (getattr(grant, f"{side.name}_id") for side in sides)
    return f"{link('explain')}?caller={caller}&target={target}"
