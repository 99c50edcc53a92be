"""Values that look like names and are data: stored, signed, sent or configured. A rename must not change them."""
