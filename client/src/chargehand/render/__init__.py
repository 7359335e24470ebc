"""Show sessions to people: reports as Markdown and as one self-contained page."""

from chargehand.render.escaping import one_safe_line, safe_text
from chargehand.render.page import report_page
from chargehand.render.text import report_markdown

__all__ = ["one_safe_line", "report_markdown", "report_page", "safe_text"]
