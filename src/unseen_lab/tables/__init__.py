"""The paper's tables as recipes: which data there are, trainings that tables share, reports."""
