"""Sessions as tasks of an A2A agent, which other agents find by its card."""
