"""Commands that run on a host or control one: agent, queue, pfc, mark, coflow."""
