"""Render sessions: `text` as Markdown, `page` as a self-contained HTML page.

Nothing is re-exported, since commands import `escaping` before pydantic is loaded.
"""
