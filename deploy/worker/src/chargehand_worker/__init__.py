"""The worker of Chargehand. `python -m chargehand_worker` runs it; `chargehand.worker` embeds it."""
