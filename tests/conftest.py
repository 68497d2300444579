"""Settings of all tests."""

from hypothesis import settings

# how long an example takes says how busy the machine is, and nothing of the code
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
