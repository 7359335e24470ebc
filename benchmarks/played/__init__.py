"""A competent model, as rules that react to what they are shown, and ten tasks for it on a loopback web."""
