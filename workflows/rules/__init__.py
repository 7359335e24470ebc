"""Pure rules: they import contracts only and are tested without Temporal."""
