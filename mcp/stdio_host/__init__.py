"""The process that runs servers over standard input: one per host, holding every child, reached over a socket.

No command ever crosses the socket: who asks names a server, and what that runs is read from the database here.
"""
