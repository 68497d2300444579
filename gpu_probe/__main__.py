"""``python -m gpu_probe``."""

import sys

from gpu_probe.cli import main

sys.exit(main())
