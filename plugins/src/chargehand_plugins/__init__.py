"""The plug-ins that come with Chargehand: a folder each, with its code, its tests and a page."""
