"""Programs on people's own machines: they send files and exports, and what ActivityWatch records."""
