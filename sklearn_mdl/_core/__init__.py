"""The engine of the package; nothing here is public."""
