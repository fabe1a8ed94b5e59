"""What all tests share.

Properties are not measured by the clock, for the first example pays for tables and caches. A shell starts what runs in
its background with interrupts ignored, and the processes that tests start and interrupt would inherit that.
"""

from __future__ import annotations

import signal

from hypothesis import settings

settings.register_profile("project", deadline=None)
settings.load_profile("project")

signal.signal(signal.SIGINT, signal.default_int_handler)
