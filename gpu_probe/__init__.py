"""Measures what one engine step costs on this machine's GPU and writes a profile."""

__version__ = "0.1.0"
