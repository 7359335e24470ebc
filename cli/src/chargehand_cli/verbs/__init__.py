"""The commands by theme: their options and what they say of themselves. What they do is in the modules above."""
