"""Read the HTML of untrusted pages, one after the other, in a limited child process.

Started by `activities.pages.text`.
"""

import base64
from typing import Any, Final

from activities import child_limits
from activities.pages.html_page import read_html

_MEMORY_BYTES: Final = 768 << 20


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Read one page, or say in words why it cannot be read; a question without one asks whether the child is there."""
    if not question:
        return {}
    child_limits.allow_processor_seconds(question["processor_seconds"])
    body = base64.b64decode(question["body"])
    try:
        # Without a charset from the server, trafilatura finds the one that the page itself declares.
        html = body.decode(question["charset"], errors="replace") if question["charset"] else body
        return read_html(question["url"], html)._asdict()
    except MemoryError:
        return {"problem": "needs more memory than a page may use"}
    except Exception as error:  # noqa: BLE001  # whatever a parser makes of a hostile page, the next page is read
        return {"problem": f"is no HTML that can be read ({type(error).__name__})"}


if __name__ == "__main__":
    child_limits.confine(_MEMORY_BYTES, file_bytes=0)
    child_limits.serve(answer)
