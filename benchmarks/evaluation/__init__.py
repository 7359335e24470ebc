"""Evaluation: how well sessions plan, route, answer and cite, on tapes, on an oracle, or on the configured models."""
