"""What all tests share: properties are not measured by the clock, for the first example pays for tables and caches."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("project", deadline=None)
settings.load_profile("project")
