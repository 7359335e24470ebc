"""What a session, an agent and a conversation know: data, and what may happen to it. No effects."""
