"""An MCP server, by stdio: a library of three reports."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("library")
_REPORTS = {
    "R-1": "Batteries of the ferry Tern. After 3,100 cycles 88 % of the capacity was left. Sea water cooled them.",
    "R-2": "Batteries of the ferry Plover. After 2,400 cycles 71 % of the capacity was left. Air cooled them.",
    "R-3": "Charging at the pier. A charge took 9 minutes at the median.",
}


@server.tool()
def find_reports(words: str) -> dict[str, str]:
    """Find reports that contain all of these words; returns the first sentence of each by its id, such as R-1."""
    wanted = words.lower().split()
    return {key: text.split(". ")[0] for key, text in _REPORTS.items() if all(word in text.lower() for word in wanted)}


@server.tool()
def read_report(report: str) -> str:
    """Read a report by its id, such as R-1."""
    return _REPORTS.get(report, f"There is no report {report}.")


if __name__ == "__main__":
    server.run()
