"""The protocol without the network: envelopes, headers, event streams, and a module per family of revisions."""
