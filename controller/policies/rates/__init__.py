"""The rate limit: leases of max-min fair rates."""
