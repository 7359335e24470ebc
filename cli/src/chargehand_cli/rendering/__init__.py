"""Show sessions to people: `text` as Markdown, `page` as one self-contained HTML page.

Nothing is re-exported here, since `escaping` is wanted before pydantic has been loaded.
"""
