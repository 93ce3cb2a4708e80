"""Commands that run on a host or speak of one: agent, queue, pfc, mark, coflow."""
