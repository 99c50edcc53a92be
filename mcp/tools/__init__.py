"""Tools that servers offer: definitions, changes, reviews."""
