"""An MCP server through which assistants delegate work to sessions."""
