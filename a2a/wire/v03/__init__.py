"""A2A 0.3, which clients of before 1.0 speak."""
