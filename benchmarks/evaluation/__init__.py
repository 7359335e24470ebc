"""Evaluation: how well sessions plan, route, answer and cite, with tapes, an oracle, or the configured models."""
