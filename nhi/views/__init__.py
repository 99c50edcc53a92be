"""Pages outside the console's frame: signing in and out, second factors, and what an error looks like."""
