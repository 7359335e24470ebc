"""The caller key: workers refuse updates and signals that are not signed with it."""

from chargehand.plugins import Hook, Registry


def register(registry: Registry) -> None:
    names = ("CHARGEHAND_CALLER_KEY", "CHARGEHAND_CALLER_KEY_ACCEPTED")
    registry.settings(f"{__name__}.required:CallerKeySettings", *names)
    registry.client_plugins(f"{__name__}.required:client_plugins")
    registry.interceptors(f"{__name__}.required:interceptors")
    registry.hook(Hook.CONNECTION, f"{__name__}.signature:sign_updates")
