"""Kernel ridge regression refitted at every row: factors, kernels and calibration."""
