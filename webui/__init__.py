"""The operators' dashboard, its REST interface and its metrics: a Flask application over the store.

Only `webui.state.poller` reads the running system, through `controller.store`.
"""
