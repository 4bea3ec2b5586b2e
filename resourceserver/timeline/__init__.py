"""The engine that adds time up: its statements and functions, and the jobs that store sums (README.md)."""
