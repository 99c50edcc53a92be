"""Shapes of the supervisor, by what they are of."""
