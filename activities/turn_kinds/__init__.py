"""The kinds of model turns: one file per group, and a registry of all."""
