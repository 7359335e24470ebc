"""OpenTelemetry spans of what a worker does: their settings, their export, and the one that is current."""
