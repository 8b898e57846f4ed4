"""Algorithms that the papers compare with: for benchmarks, in no wheel, unknown to the registry and never published.

A package here has the name of a family's package. Importing it adds its algorithms to that family's own table of
algorithm functions, so that ``anonymise(..., algorithm="glove")`` computes them in memory::

    import benchmarks.papers.kte  # noqa: F401 - adds glove, static and w4m
    family = dbanon.methods.METHODS["kte"]
    cloaks = family.anonymise(data, "glove", family.parse({"k": 5}), rng)

Their tests and oracles are in ``tests/papers``. CONTRIBUTING.md lists them with their papers.
"""
