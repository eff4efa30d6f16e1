"""The methods that graph networks are compared with, one file a paper; docs/methods.md has formulas and settings."""
