"""The shipped plug-ins of Chargehand: one folder each, with code, tests and a page."""
