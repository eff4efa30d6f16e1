"""The methods that graph networks are compared with, one file a paper. See docs/methods.md for formulas and settings."""
