"""Numerical kernels that several families share; a kernel of one family stays in its package."""
