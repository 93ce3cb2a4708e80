"""The agent's reflex: C code that changes gates for pauses, conditions and days while the Python loop waits, and the state
that C and Python share.
"""
