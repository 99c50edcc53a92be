"""What this app adds to the frame of the console: sidebar, what needs a person, palette.

Addresses are names here and are looked up when a page is drawn: the site's own are made of these modules.
"""

from common.admin import navigation, palette
from common.admin.navigation import Item
from nhi.admin import counts, finding
from nhi.admin.acting import may
from nhi.admin.counts import Need

navigation.add(
    Item("", "Home", "home", "index", lambda _request: True, key="h"),
    Item("Identities", "All identities", "smart_toy", "nhi_identity_changelist", lambda request: may(request, "nhi.view_identity"), key="i"),
)  # fmt: skip

counts.add(
    Need("identities_ending", counts.identities_ending, "{} identity ends within 7 days", "{} identities end within 7 days", "event_busy", "nhi_identity_changelist", "ends=7"),
    Need("suspended", counts.suspended, "{} identity is suspended", "{} identities are suspended", "pause_circle", "nhi_identity_changelist", "state=suspended"),
)  # fmt: skip

navigation.count_with(counts.for_request)
palette.add(finding.find)
