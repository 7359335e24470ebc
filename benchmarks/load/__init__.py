"""Many sessions at once, for long, and through faults: what the machine carries, and that nothing is lost or grows."""
