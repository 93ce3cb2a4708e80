"""The whole of Baton on an emulated fabric: controllers, agents, stores, and the demo."""
