"""Our own pages and Temporal's Web UI, as people see them in a browser."""
