"""Benchmarks: ``python -m benchmarks`` lists them; README.md tells how to add one."""
