"""`unseen info`."""
