"""Stacks of networks of one shape, with their losses, optimiser and averages."""
