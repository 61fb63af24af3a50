"""Measure the paper's tables and figures anew: ``python -m evidence list | run | report``, see evidence/README.md."""
