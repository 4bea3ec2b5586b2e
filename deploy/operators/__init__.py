"""Operators' commands about people's data, with the owner's login."""
