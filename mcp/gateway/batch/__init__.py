"""The clerk: decides and records the calls of one process, many at a time, with the database as the truth."""
