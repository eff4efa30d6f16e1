"""Stage 1: (hierarchy, class vectors, network) -> a classifier for every class, as a bundle."""
