"""Desks: conversations with customers, judged by the database that they leave."""
