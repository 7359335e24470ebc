"""Pure rules, which import contracts only and are tested without Temporal."""
