"""The options of `chargehand clean`."""

from datetime import timedelta

import pytest

from chargehand.payloads.errors import ProtectionSettingsError
from chargehand_plugins.operations.clean import age


def test_ages_are_read() -> None:
    """Hours, days and weeks are understood; anything else is an error with an example."""
    assert [age(text) for text in ("12h", "30d", "4w")] == [timedelta(hours=12), timedelta(days=30), timedelta(days=28)]
    for wrong in ("", "30", "d", "-1d", "1.5d", "30 d", "1y", "9" * 7 + "d"):
        with pytest.raises(ProtectionSettingsError, match="12h, 30d or 4w"):
            age(wrong)
