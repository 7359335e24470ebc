"""Reads the texts of an e-mail, or of a page that a browser saved as one, and names the attached files."""

from email import message_from_bytes, policy
from email.message import Message
from typing import Final, cast

from activities.documents.formats.html_text import NEVER_SHOWN, read_blocks
from activities.documents.formats.plain_text import parse_text
from activities.documents.parsed import Parsed, Source
from activities.processes.limits import Allowance

_HEADERS: Final = ("From", "To", "Cc", "Date", "Subject")
_NO_TEXT: Final = frozenset({"css", "javascript", "calendar"})


def parse(source: Source, allowance: Allowance) -> Parsed:
    texts, attached, unchosen = list[str](), list[str](), list[Message]()
    for part in message_from_bytes(source.path.read_bytes(), policy=policy.default).walk():
        texts.append("\n".join(f"{name}: {part[name]}" for name in _HEADERS if part[name]))
        parts = cast("list[Message]", part.get_payload()) if part.is_multipart() else []
        if part.get_content_type() == "multipart/alternative":
            unchosen += parts[1:]  # the same text with formatting
        elif not parts and (part.get_filename() or part.get_content_maintype() != "text"):
            attached.append(part.get_filename() or part.get_content_type())
        elif not parts and part not in unchosen and part.get_content_subtype() not in _NO_TEXT:
            text = part.get_content().strip()
            is_page = part.get_content_subtype() == "html"
            texts += [block.text for block in read_blocks(text, allowance, NEVER_SHOWN)[0]] if is_page else [text]
    parsed = parse_text("\n\n".join(filter(None, texts)), "mail.txt")
    parsed.unread = f"attached files: {', '.join(dict.fromkeys(attached))}. Give them beside it." if attached else ""
    return parsed
