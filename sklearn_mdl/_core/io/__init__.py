"""Files of arrays and parameters, and descriptions of the environment."""
