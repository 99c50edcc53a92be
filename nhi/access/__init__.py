"""Who has access to what."""
