"""Readers of one kind of file each, in batches of bounded size; what a row means is decided in `dbanon.load`."""
