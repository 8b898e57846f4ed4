"""Records that verbs return and pages are made of; nothing here computes a figure or reads a database."""
