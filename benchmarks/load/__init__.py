"""Many concurrent sessions, over a long time and through faults: what the machine carries, with no loss or growth."""
