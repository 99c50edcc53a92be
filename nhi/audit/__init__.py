"""The append-only logs: writers, MACs, triggers and verification."""
