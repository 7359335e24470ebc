"""Code in a bubblewrap sandbox on Linux: full Python in separate namespaces, offered only after a self-test."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    registry.settings(f"{__name__}.sandbox:BubblewrapSettings", "CHARGEHAND_CODE_PACKAGES")
    registry.code_sandbox("bubblewrap", f"{__name__}.sandbox:open_sandbox")
    registry.examinations(f"{__name__}.sandbox:examine")
