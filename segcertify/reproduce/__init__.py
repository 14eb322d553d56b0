"""The paper's experiments, run again with this package."""
