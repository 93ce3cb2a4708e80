"""The HTTP side: the dashboard's page, the REST interface, the event stream, the metrics."""
