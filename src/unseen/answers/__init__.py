"""Photos -> features -> scores -> probabilities -> verdict -> answer; explanations and heat maps."""
