"""Speaks to a PostgreSQL server: finds or starts one, connects, copies, and translates its errors.

Nothing here knows datasets, runs or releases.
"""
