"""The settings of webhooks, and the worker's parts."""

from pydantic import Field, SecretStr, field_validator

from activities.backends import Host, WebAddress, secret
from chargehand_plugins.webhooks.activity import WebhookActivities, WebhookRules, read_secret
from chargehand_plugins.webhooks.links import Links
from worker.parts import WorkerParts
from worker.settings import PartSettings, Settings, settings_of


class WebhookSettings(PartSettings):
    """The settings of webhooks."""

    webhook_hosts: frozenset[Host] = frozenset()
    """Hosts that requests' webhook addresses may name, as a JSON list: `name` for https at a public address, or
    `name:port`, which may be internal and without TLS."""
    webhook_secret: SecretStr | None = Field(default=None, min_length=24)
    """Signs webhook messages: `whsec_` and base64, or any text of 24 characters or more."""

    decision_key: SecretStr | None = Field(default=None, min_length=24)
    """Signs decision links; must match the console's key."""
    decision_url: WebAddress = ""
    """Address of the console that decision links open."""

    @field_validator("webhook_secret")
    @classmethod
    def _is_readable(cls, given: SecretStr | None) -> SecretStr | None:
        try:
            read_secret(secret(given))
        except ValueError as error:
            raise ValueError("is not base64 after whsec_") from error
        return given


def links_of(settings: Settings) -> Links:
    """Build the object that creates decision links."""
    own = settings_of(settings, WebhookSettings)
    return Links(own.decision_url, secret(own.decision_key).encode())


async def add_parts(parts: WorkerParts) -> None:
    """Call webhooks, and refuse requests with addresses that the operator does not allow."""
    settings = settings_of(parts.settings, WebhookSettings)
    rules = WebhookRules(settings.webhook_hosts, read_secret(secret(settings.webhook_secret)))
    parts.request_checks.append(rules.check)
    parts.activities.append(WebhookActivities(rules, links_of(parts.settings)).call_webhook)
