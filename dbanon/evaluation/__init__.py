"""Measures how far answers from the rows of a run are off; nothing here computes, writes or publishes a run."""
