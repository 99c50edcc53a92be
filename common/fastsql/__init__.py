"""SQL statements that are compiled once and executed with new values."""
