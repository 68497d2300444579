"""Settings of all tests."""

import os

from hypothesis import settings

# where there is no NVIDIA driver, Triton kernels run interpreted; read when Triton is imported, and
# torch imports it
if not any(map(os.path.exists, ("/dev/nvidiactl", "/proc/driver/nvidia"))):
    os.environ["TRITON_INTERPRET"] = "1"

# how long an example takes says how busy the machine is, and nothing of the code
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
