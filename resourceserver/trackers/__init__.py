"""What runs on people's own machines: sending files and exports, and the bridge from ActivityWatch."""
