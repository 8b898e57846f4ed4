"""A run from submission to verdict: the queue, what is read and written, the attack, what is stored of it.

How far answers from its rows are off is measured in `dbanon.evaluation`.
"""
