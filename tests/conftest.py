"""For all tests: what hypothesis draws.

The same each time, so a run that fails says something of what was changed, and not of luck. `make fuzz` draws anew, many times
(BATON_DRAWS=anew). An example may take its time, for the machine may be busy with others' work.
"""

from __future__ import annotations

import os

from hypothesis import Phase, settings

# "explain" traces each line that runs: policies take ten times as long.
PHASES = [phase for phase in Phase if phase is not Phase.explain]
settings.register_profile("same", deadline=None, max_examples=50, phases=PHASES, derandomize=True)
settings.register_profile("anew", settings.get_profile("same"), derandomize=False)
settings.load_profile(os.environ.get("BATON_DRAWS", "same"))
