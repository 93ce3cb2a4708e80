"""The agent's reflex: C code that obeys pauses, conditions and days while the Python loop waits, and the state that both
share.
"""
