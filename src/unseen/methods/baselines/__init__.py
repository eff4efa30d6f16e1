"""The methods that the paper compares with, and two that it should have."""
