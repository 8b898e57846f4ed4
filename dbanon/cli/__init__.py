"""The command line: parse, print, exit code. `dbanon.cli.main` gathers the commands of the other modules.

What another program could want as well lives in `dbanon.database`.
"""
