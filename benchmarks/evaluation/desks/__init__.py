"""Desks: conversations with customers, judged by the database state that they leave."""
