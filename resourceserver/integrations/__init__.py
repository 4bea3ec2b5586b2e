"""Integrations: data of other services, from their files, connections and receivers."""
