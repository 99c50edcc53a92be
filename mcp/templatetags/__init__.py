"""Tags of this app."""
