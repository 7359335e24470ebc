"""Capacity planning: the measured cost of one session, and what to set for a number of sessions a day."""
