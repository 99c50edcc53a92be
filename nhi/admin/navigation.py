"""What this app adds to the frame of the console: sidebar, what needs a person, palette.

Addresses are names here and are looked up when a page is drawn: the site's own are made of these modules.
"""

from collections.abc import Callable

from django.http import HttpRequest
from django.urls import reverse

from common.console import command_palette, navigation
from common.console.navigation import SidebarItem
from nhi.admin import palette_search
from nhi.console import attention_counts
from nhi.console.attention_counts import AttentionItem
from nhi.console.request_actor import may


def _who(right: str) -> Callable[[HttpRequest], bool]:
    return lambda request: may(request, right)


class Own(SidebarItem):
    """A page of one's own account, whose address is not among the admin site's."""

    @property
    def url(self) -> str:
        return reverse(self.page)


navigation.add_sidebar_items(
    SidebarItem("", "Home", "home", "index", lambda _request: True, key="h"),
    SidebarItem(
        "Identities", "All identities", "smart_toy", "nhi_identity_changelist", _who("nhi.view_identity"), key="i"
    ),
    SidebarItem(
        "Identities",
        "Credentials",
        "key",
        "nhi_credential_changelist",
        _who("nhi.view_credential"),
        badge="credentials_ending",
    ),
    SidebarItem(
        "Access",
        "Grants",
        "handshake",
        "nhi_toolpermission_changelist",
        _who("nhi.view_toolpermission"),
        key="a",
        also=("nhi_nhipermission_changelist", "nhi_userpermission_changelist", "nhi_roleassignment_changelist"),
    ),
    SidebarItem("Access", "Roles", "badge", "nhi_role_changelist", _who("nhi.view_role"), badge="wildcards_waiting"),
    SidebarItem("Access", "Explain", "rule", "explain", lambda _request: True),
    SidebarItem(
        "Activity", "Audit events", "history", "nhi_auditevent_changelist", _who("nhi.view_auditevent"), key="c"
    ),
    SidebarItem("Settings", "People and roles", "group", "nhi_user_changelist", _who("nhi.view_user")),
    Own("Settings", "Sign-in", "lock", "mfa_index", lambda _request: True),
    Own("Settings", "My tokens", "vpn_key", "my_tokens", lambda _request: True),
    SidebarItem("Settings", "System", "dns", "system", _who("nhi.view_process")),
)

attention_counts.add_items(
    AttentionItem(
        "credentials_ending",
        attention_counts.credentials_ending,
        "{} credential ends within 7 days",
        "{} credentials end within 7 days",
        "key",
        "nhi_credential_changelist",
        "ends=7",
    ),
    AttentionItem(
        "identities_ending",
        attention_counts.identities_ending,
        "{} identity ends within 7 days",
        "{} identities end within 7 days",
        "event_busy",
        "nhi_identity_changelist",
        "ends=7",
    ),
    AttentionItem(
        "access_ending",
        attention_counts.access_ending,
        "{} grant ends within 7 days",
        "{} grants end within 7 days",
        "handshake",
        "nhi_toolpermission_changelist",
        "ends=7",
    ),
    AttentionItem(
        "limits_void",
        attention_counts.limits_void,
        "{} grant has a limit that limits nothing",
        "{} grants have a limit that limits nothing",
        "rule",
        "nhi_toolpermission_changelist",
        "limit=nothing",
    ),
    AttentionItem(
        "wildcards_waiting",
        attention_counts.wildcards_waiting,
        "{} role wildcard waits for your approval",
        "{} role wildcards wait for your approval",
        "badge",
        "nhi_role_changelist",
        "waiting=yes",
    ),
    AttentionItem(
        "suspended",
        attention_counts.suspended,
        "{} identity is suspended",
        "{} identities are suspended",
        "pause_circle",
        "nhi_identity_changelist",
        "state=suspended",
    ),
)

navigation.count_with(attention_counts.counts_for_request)
command_palette.add_palette_providers(palette_search.find)
