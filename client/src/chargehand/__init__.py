"""Chargehand: durable multi-agent sessions on Temporal, as other services use them.

Start with `Chargehand.connect()` and `SessionRequest`.
"""
