"""What every other package may use: errors, the data that crosses layers, and small tools for a process.

Code for one verb, one family or one page lives with it.
"""
