"""Live servers: logs as the server sends them to a replica.

`stream.ServerStream` gives the raw events of a server's logs, run by run, over lost lines and restarts; what
decodes them is the loop that reads files, too.
"""
