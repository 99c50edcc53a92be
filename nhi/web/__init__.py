"""Pages and middleware outside of the admin site: sign-in, errors, sessions."""
