"""The family kte."""
