"""Pages of roles."""
