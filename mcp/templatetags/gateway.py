"""Template tags of the gateway: the state of a tool's definition, and the URL of a call."""

from django import template
from django.utils.safestring import SafeString

from common.console import badges
from common.console.pages import link_if_any
from common.templatetags.console import badge
from mcp.models import Tool
from nhi.models import InvocationLog

register = template.Library()


@register.simple_tag
def definition_of(tool: Tool) -> SafeString:
    """The state of a tool's definition, and whether the tool is deprecated."""
    badges_html = badge(badges.find("mcp.DefinitionState", tool.state))
    if tool.deprecated:
        badges_html += SafeString(" ") + badge(badges.find("mcp.DefinitionState", "deprecated"))
    return SafeString(badges_html)


@register.simple_tag
def call_url(call: InvocationLog) -> str:
    return link_if_any("nhi_invocationlog_call", call.pk)
