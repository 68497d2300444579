"""Figures 2, 5, 6, 7 and 8 of the DSpark paper (arXiv 2607.05147), from recorded traces."""
