"""A predicate that a rule file could not say: whether a tensor can be cut into few enough tiles."""

from __future__ import annotations

import math

TILE = (16, 16)
MOST_TILES = 64


def fits_tiles(shape: tuple[int, ...]) -> bool:
    """Whether the last two dimensions, cut into tiles of 16 by 16, make at most 64 of them.

    >>> fits_tiles((1, 8, 64, 64)), fits_tiles((1, 8, 512, 512))
    (True, False)
    """
    tiles = math.prod(-(-size // tile) for size, tile in zip(shape[-2:], TILE, strict=True))
    return tiles <= MOST_TILES
