"""The record: append-only tables, their one writer, and the guards that keep them so."""
