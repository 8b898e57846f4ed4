"""Numerical kernels that several families share; one family's stay in its package.

Nothing of an attack lives here.
"""
