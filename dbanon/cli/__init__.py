"""The command line: parse, print, exit code. `dbanon.cli.main` gathers the commands of the other modules.

A program calls `dbanon.database`, so no command does more than call it and print.
"""
