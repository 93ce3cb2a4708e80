"""What is served: pages, REST, the event stream, metrics."""
