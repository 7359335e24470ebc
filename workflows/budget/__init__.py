"""What a session may spend: the ledger, estimates, grants and metered model calls."""
