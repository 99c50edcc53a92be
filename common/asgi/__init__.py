"""HTTP handling outside Django: request bodies, client addresses, hosts, and Django's own ASGI handler."""
