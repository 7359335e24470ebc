"""The console: a web page and an HTTP API on one server, for one namespace and task queue.

`security` decides who may talk to it, `api` and `pages` are its two faces, `server` runs it.
"""
