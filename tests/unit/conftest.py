"""For all tests: an example may take its time, for the machine may be busy with others' work."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("baton", deadline=None, max_examples=50)
settings.load_profile("baton")
