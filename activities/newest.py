"""A mapping that keeps only the latest entries."""

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Newest(OrderedDict[Key, Value]):
    """Drops its oldest entry when it has more than `most`."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > self._most:
            self.popitem(last=False)
