"""A language model on this machine, for any command: `python -m chargehand_plugins.local_model`."""
