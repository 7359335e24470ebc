"""Render sessions: `text` as Markdown, `page` as a self-contained HTML page, `terminal_report` in short for a terminal.

Nothing is re-exported, since commands import `escaping` before pydantic is loaded.
"""
