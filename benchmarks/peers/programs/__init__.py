"""One program per framework; each runs in a separate environment and imports nothing of this project but `job`."""
