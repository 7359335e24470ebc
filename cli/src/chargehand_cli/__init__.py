"""The command `chargehand`. Modules load temporalio and rich only when a command needs them."""
