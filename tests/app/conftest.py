"""The app's tests need the ``app`` extra."""

from __future__ import annotations

import pytest

pytest.importorskip("streamlit", reason="the app extra is not installed")
pytest.importorskip("altair", reason="the app extra is not installed")
