"""Pages of grants."""
