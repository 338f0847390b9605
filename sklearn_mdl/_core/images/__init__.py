"""Reading and preparing pictures."""
