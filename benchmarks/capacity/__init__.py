"""What to set for so many sessions a day: what one session costs, measured, and the arithmetic from there."""
