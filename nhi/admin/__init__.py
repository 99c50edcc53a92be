"""The console's pages of this app. Importing a module registers what it has."""

from nhi.admin import identities, navigation, saved_views

__all__ = ["identities", "navigation", "saved_views"]
