"""The laboratory: the paper's tables, comparisons, and methods that exist to be compared with."""
