"""Measurements of speed, size and growth. They print ratios, which vary less between machines."""
