"""The settings of the console: addresses, clients and limits."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from chargehand.local_server import is_loopback
from chargehand_cli.run_options import BadRequest


class UnusableConsole(BadRequest):  # reads as a statement: `except UnusableConsole`
    """The console cannot be served with these settings; the message names the option and the remedy."""


@dataclass(frozen=True)
class ConsoleSettings:
    token: str
    decision_key: str = field(default="", repr=False)
    """Signs decision links; empty to disable them."""
    host: str = "127.0.0.1"
    port: int | None = None
    """The port; None for the default, or any free one if that is taken."""
    certificate: str | None = None
    """Path of the PEM certificate chain, for TLS; `private_key` is its key."""
    private_key: str | None = None
    public_url: str | None = None
    """The address for browsers, if different from the listening one, as behind a proxy."""
    requests_per_minute: int = 600
    """Maximum requests per minute of a client, which is a token or a signed-in browser."""
    starts_per_minute: int = 60
    most_body_bytes: int = 200_000_000
    """Maximum size of a request with documents; without documents, 2 MB."""
    idle_seconds: float = 30
    """Maximum silence of a client during a request."""
    most_streams: int = 100
    """Maximum concurrent event streams."""

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.private_key):
            raise UnusableConsole("--certificate and --private-key belong together.")
        if not is_loopback(self.host) and not self.certificate:
            raise UnusableConsole(
                f"Anyone who can read the traffic gets the token, so listening on {self.host} requires TLS: "
                "--certificate and --private-key. Without them the console only listens on 127.0.0.1, where a proxy "
                "can reach it."
            )
        if not is_loopback(self.host) and not self.public_url:
            raise UnusableConsole(
                f"Listening on {self.host} requires --public-url, the address that browsers use, such as "
                "https://chargehand.example.com: requests for other host names are refused."
            )
        if self.public_url is not None:
            parts = urlsplit(self.public_url)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
                raise UnusableConsole("--public-url must be an origin, such as https://chargehand.example.com.")
            if parts.scheme == "http" and not is_loopback(parts.hostname):
                raise UnusableConsole("--public-url must begin with https://, since the token travels with requests.")

    def origins(self, port: int) -> frozenset[str]:
        """List the origins of its own pages when listening on this port."""
        if self.public_url:
            parts = urlsplit(self.public_url.lower())
            return frozenset({f"{parts.scheme}://{parts.netloc}"})
        scheme = "https" if self.certificate else "http"
        own = f"[{self.host}]" if ":" in self.host else self.host
        return frozenset(f"{scheme}://{name}:{port}" for name in (own, "localhost"))

    def url(self, port: int) -> str:
        """Return the address for browsers, without the token."""
        return (self.public_url or sorted(self.origins(port))[0]).rstrip("/")
