"""Networks that a researcher compares with: the paper's own."""
