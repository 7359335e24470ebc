"""What a model turn can be for: one file a kind, and the registry of them all."""
