"""Budgets and circuit breakers."""
