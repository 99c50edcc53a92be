"""The process that runs stdio servers: one per machine, parent of every server process, reached over a Unix socket.

No command ever crosses the socket: a request names a server, and this process reads its command from the database.
"""
