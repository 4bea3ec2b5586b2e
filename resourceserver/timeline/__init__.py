"""The engine that adds time up: what it computes with, and the jobs that keep sums (README.md)."""
