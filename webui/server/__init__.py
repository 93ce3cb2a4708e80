"""The HTTP server below the application: who gets a connection, a turn, and how long a client may take."""
