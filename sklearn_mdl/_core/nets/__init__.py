"""Networks of one shape in one torch module, with their optimiser and averages."""
