"""A competent rule-based model that reacts to what it is shown, and ten tasks for it on a loopback web."""
