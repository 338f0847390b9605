"""Many networks of one shape as one torch module, their optimiser and averages."""
