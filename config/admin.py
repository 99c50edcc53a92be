"""The console's site."""

from unfold.sites import UnfoldAdminSite


class ConsoleSite(UnfoldAdminSite):
    site_title = site_header = "Gatehouse"
    index_title = "Home"
