"""Simulation and scheduler design for speculative decoding."""

__version__ = "0.1.0"
