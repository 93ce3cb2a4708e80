"""The interface's queues: the HTB tree, a gate for each destination, and the classifier that feeds them."""
