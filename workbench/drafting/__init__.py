"""The system that traces come from: target, DFlash and DSpark drafters, decoding, recording.

Everything here but ``config`` needs PyTorch (extra ``drafting``); nothing else of the workbench
imports it.
"""
