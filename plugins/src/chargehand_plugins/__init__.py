"""The shipped plug-ins of Chargehand: a folder each, with code, tests and a page."""
