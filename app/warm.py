"""What a server does as it starts, so that its first visitor need not wait for it.

Imports, the usual trace and profile, and the quick points of the view that the app opens on; with
them the compiled loops are loaded (on a new machine: compiled).
"""

from __future__ import annotations

import logging

_log = logging.getLogger("workbench.app")


def warm() -> None:
    """Do it; a failure is logged and left to the visit, which says it on its page."""
    try:
        from app.controls import defaults, points
        from app.scene import usual_scene
        from app.sweeps import ahead
        from app.views import frontier  # noqa: F401 the first page

        scene = usual_scene()
        ahead(scene.demand, points(scene, defaults(scene)))
    except Exception:
        _log.exception("warming failed")
