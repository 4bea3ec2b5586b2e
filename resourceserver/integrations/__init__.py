"""How data comes in from other services: files that people already have, connections and receivers."""
