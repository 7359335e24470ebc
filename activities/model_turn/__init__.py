"""The activity that makes one model call, and what makes it survive a crash."""
