"""The hosts that take part, and the coordinator's parts that hear from them and tell them."""
