"""What every other package may use: errors, the data that crosses layers, and small tools for a process.

What one verb, one family or one page needs does not live here.
"""
