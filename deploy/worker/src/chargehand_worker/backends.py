"""Public names for writing search services and sandboxes; see docs/how-to/own-plugins.md."""

from activities.backends import SettingsError
from activities.tools.code.protocol import CodeResult, CodeRunner
from activities.tools.search.protocol import SearchBackend, SearchHit, SearchResults
from worker.settings import Settings

__all__ = ["CodeResult", "CodeRunner", "SearchBackend", "SearchHit", "SearchResults", "Settings", "SettingsError"]
