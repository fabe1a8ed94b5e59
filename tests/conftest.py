"""What all tests share.

Properties are not measured by the clock, for the first example pays for tables and caches. A shell starts what runs in
its background with interrupts ignored, and the processes that tests start and interrupt would inherit that. Kernels are
compiled into a cache of the run, so that none is built twice and the user's own cache stays as it is.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile

from hypothesis import settings

settings.register_profile("project", deadline=None)
settings.load_profile("project")

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers share that of the process that starts them
    cache = tempfile.mkdtemp(prefix="rewrite_engine.tests.")
    os.environ["REWRITE_ENGINE_CACHE"] = cache
    atexit.register(shutil.rmtree, cache, ignore_errors=True)

signal.signal(signal.SIGINT, signal.default_int_handler)
