"""Pure rules, which import only contracts and are tested without Temporal."""
