"""Scoring by the answer: pure functions over texts."""
