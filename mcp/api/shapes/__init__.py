"""What the gateway's paths take and give."""
