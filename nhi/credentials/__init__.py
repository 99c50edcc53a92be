"""Credentials and tokens of identities and people."""
