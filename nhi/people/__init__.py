"""People: accounts, sign-in and personal settings."""
