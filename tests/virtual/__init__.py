"""Tests of virtual time: `make test-virtual` builds the kernel and runs them."""
