"""What a text means: candidates, lists of names, and where a new name belongs."""
