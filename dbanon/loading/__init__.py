"""The steps of a load, from cells of a file or table to trajectories; `dbanon.load` puts them in order."""
