"""Charts and first steps on the Home page."""
