"""For all tests: an example may take its time, for the machine may be busy with others' work."""

from __future__ import annotations

from hypothesis import Phase, settings

# "explain" traces each line that runs: policies take ten times as long.
PHASES = [phase for phase in Phase if phase is not Phase.explain]
settings.register_profile("baton", deadline=None, max_examples=50, phases=PHASES)
settings.load_profile("baton")
