"""All of Baton over an emulated fabric: controllers, agents, stores, flow-scheduling schemes, and the demo."""
