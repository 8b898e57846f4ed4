"""The command line: parse, print, exit code. `dbanon.cli.main` gathers the commands of the other modules."""
