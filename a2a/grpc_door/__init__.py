"""A2A over gRPC: the services of both versions on one port, in front of the operations that HTTP has too."""
