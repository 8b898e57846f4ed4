"""``python -m dbanon``."""

from dbanon.cli import main

main()
