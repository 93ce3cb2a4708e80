"""The store in Redis: its keys, the connection, documents, feeds for observers, operators' commands, a private server."""
