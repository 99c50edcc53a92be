"""Pages of the call log."""
