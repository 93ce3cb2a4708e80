"""Measuring a run: how faithful the emulation was, percentiles and fairness, processors kept awake, the demo's figure."""
