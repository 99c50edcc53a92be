"""The decision engine. Pure: no database, no settings, no clock."""
