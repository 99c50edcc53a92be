"""Statements compiled once and executed with new values."""
