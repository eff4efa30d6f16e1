"""The class hierarchy: a directed acyclic graph of ids with names and definitions; WordNet, and files of your own."""

from unseen.hierarchy.core import Hierarchy, Node, Sense

__all__ = ["Hierarchy", "Node", "Sense"]
