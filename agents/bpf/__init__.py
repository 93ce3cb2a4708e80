"""The agent's eBPF programs: the classifier, the tagger of flow priorities, and congestion control."""
