"""Data sets of experiments: everyday things, the attribute benchmarks."""
