"""One program a framework; each runs in an environment of its own and imports nothing of this project but `job`."""
