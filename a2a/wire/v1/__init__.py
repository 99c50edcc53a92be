"""A2A 1.0: the shape that is stored, too."""
