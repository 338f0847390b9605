"""Benchmarks: ``python -m benchmarks`` lists them, README.md says how to add one."""
