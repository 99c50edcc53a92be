"""Pages of waiting calls."""
