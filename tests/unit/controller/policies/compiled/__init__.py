"""Tests of the compiled policies: against their references, and under the sanitizers."""
