"""Search services other than Tavily: Brave, your own SearXNG, and `ddgs`, which needs no key."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    registry.settings(f"{__name__}.services:SearchServiceSettings", "CHARGEHAND_SEARXNG_URL")
    registry.search_service("brave", f"{__name__}.services:open_brave", needs="BRAVE_API_KEY")
    registry.search_service("searxng", f"{__name__}.services:open_searxng", needs="CHARGEHAND_SEARXNG_URL")
    registry.search_service("ddgs", f"{__name__}.services:open_ddgs")
