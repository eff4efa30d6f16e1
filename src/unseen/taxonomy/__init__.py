"""The class hierarchy: a directed acyclic graph of ids with names and definitions."""

from unseen.taxonomy import sources as _sources  # noqa: F401 (so that Taxonomy.load and the like find what they need)
from unseen.taxonomy.core import Taxonomy
from unseen.taxonomy.nodes import Node, Sense

__all__ = ["Node", "Sense", "Taxonomy"]
