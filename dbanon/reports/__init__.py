"""Reads what pages say of runs and releases, with their readers' rights; HTML and SVG are made in `dbanon.pages`."""
