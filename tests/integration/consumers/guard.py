"""For programs that must work without certain modules, although they are installed."""

import importlib.abc
import sys


class _Refusal(importlib.abc.MetaPathFinder):
    def __init__(self, names):
        self._names = names

    def find_spec(self, fullname, path=None, target=None):
        if fullname.split(".")[0] in self._names:
            raise ImportError(f"{fullname} must not be imported here")


def refuse(*names):
    """Makes imports of these packages fail."""
    already = sorted(set(names) & set(sys.modules))
    assert not already, already
    sys.meta_path.insert(0, _Refusal(names))
