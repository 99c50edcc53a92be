"""Authenticates callers and asks the decision engine with facts from the database."""
