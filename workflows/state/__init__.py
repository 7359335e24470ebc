"""The state of sessions, agents and conversations, changed only by its own methods. No effects."""
