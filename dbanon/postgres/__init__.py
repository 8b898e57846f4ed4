"""Speaks to a PostgreSQL server: finds or starts one, connects, copies, and translates its errors.

What a dataset, a run or a release is does not live here.
"""
