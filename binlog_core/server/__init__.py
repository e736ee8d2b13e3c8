"""Live servers: logs as the server sends them to a replica.

`stream.ServerStream` gives the raw events of a server's logs, run by run, across lost connections and
restarts. The same loop that reads files decodes them.
"""
