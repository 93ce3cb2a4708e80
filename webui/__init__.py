"""The operators' dashboard, its REST interface and its metrics: a Flask application over the store.

`webui.state.poller` alone reads the running system, through `controller.store`.
"""
