"""Measurements of speed, size and growth. They print ratios; machines differ, ratios less so."""
