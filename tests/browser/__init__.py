"""What people see in a browser: pages of ours, and Temporal's Web UI."""
