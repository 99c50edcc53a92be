"""Pages of tools."""
