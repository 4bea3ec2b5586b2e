"""Neighbours: how long bob waits while mallory takes all that she can get.

``python -m tests.bench.neighbours`` prints one table. ``bob.py`` has bob's calls, ``mallory.py`` what mallory
does, and ``__main__.py`` the lines of the table, each a declaration.
"""
