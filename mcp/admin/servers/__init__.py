"""Pages of servers."""
