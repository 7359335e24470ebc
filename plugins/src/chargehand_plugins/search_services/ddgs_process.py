"""Search the web by `ddgs` in a limited child process, since it parses untrusted pages.

Started by `chargehand_plugins.search_services.ddgs`.
"""

from typing import Any, Final

from activities.processes import limits

_MEMORY_BYTES: Final = 2 << 30
"""Address space; the library's HTTP client reserves much of it and uses little."""


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Search once; the answer has `hits` or `problem`."""
    from ddgs import DDGS  # pyright: ignore[reportUnknownVariableType]  # its own annotations leave type arguments out
    from ddgs.engines import ENGINES
    from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException

    for engine, url in question["addresses"].items():
        ENGINES["text"][engine].search_url = url
    try:
        with DDGS(timeout=question["seconds"]) as search:
            results = search.text(question["query"], max_results=question["limit"], backend=question["engines"])
    except TimeoutException:
        return {"problem": "late"}
    except RatelimitException:
        return {"problem": "rate"}
    except DDGSException as error:
        # The library has no other way to signal an empty result.
        return {"hits": []} if str(error) == "No results found." else {"problem": "failed"}
    most = question["characters"]
    return {
        "hits": [
            {"title": hit["title"][:most], "url": hit["href"], "snippet": hit["body"][:most]}
            for hit in results[: question["limit"]]
            if len(hit["href"]) <= most
        ]
    }


if __name__ == "__main__":
    limits.confine(_MEMORY_BYTES, file_bytes=0)
    limits.serve(answer)
