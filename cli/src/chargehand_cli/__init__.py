"""The command line of Chargehand."""
