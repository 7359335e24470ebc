"""An MCP server through which assistants hand work over to sessions."""
