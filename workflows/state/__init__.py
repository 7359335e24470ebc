"""The state of sessions, agents and conversations, changed by its own methods only. No effects."""
