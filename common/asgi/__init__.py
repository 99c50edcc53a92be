"""HTTP before and beside Django."""
