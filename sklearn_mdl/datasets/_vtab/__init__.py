"""The tasks of VTAB, read from the files that the data owners publish."""
