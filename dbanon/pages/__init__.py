"""Pages and pictures: figures in, HTML and SVG out; nothing is read from a database here.

`dbanon.reports` reads what they show.
"""
