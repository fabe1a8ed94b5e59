"""The one place where names are made: unique, stable, readable, never colliding with the model's own."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Hands out names that are not taken. What it gives depends only on the names taken and on the order of requests.

    >>> names = Names({"x", "tern.qconv.2"})
    >>> names.unique("x"), names.unique("y"), names.unique("x")
    ('x.2', 'y', 'x.3')
    >>> names.numbered("tern.qconv"), names.numbered("tern.qconv"), names.numbered("tern.qconv")
    ('tern.qconv.1', 'tern.qconv.3', 'tern.qconv.4')
    >>> names.on_device("x", "npu0"), names.on_device("x", "npu0")
    ('x.on.npu0', 'x.on.npu0.2')
    """

    __slots__ = ("_next", "_taken")

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def take(self, names: Iterable[str]) -> None:
        """These names are used elsewhere: never hand them out."""
        self._taken.update(names)

    def unique(self, stem: str) -> str:
        """`stem` itself when it is free, else `stem.2`, `stem.3`, …"""
        if stem and stem not in self._taken:
            self._taken.add(stem)
            return stem
        return self._count(stem, 2)

    def numbered(self, stem: str) -> str:
        """`stem.1`, `stem.2`, …: kernels of one rule ("tern.qconv.3"), regions of one target ("tern.region.1")."""
        return self._count(stem, 1)

    def on_device(self, value: str, device: str) -> str:
        """The name of a copy of `value` on `device`, or of `value` computed a second time there."""
        return self.unique(f"{value}.on.{device}")

    def _count(self, stem: str, first: int) -> str:
        number = max(self._next.get(stem, first), first)
        while f"{stem}.{number}" in self._taken:
            number += 1
        self._next[stem] = number + 1
        name = f"{stem}.{number}"
        self._taken.add(name)
        return name
