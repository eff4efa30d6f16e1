"""The paper's tables: recipes, what data there is, trainings that tables share, reports."""

from unseen.reproduction.tables import Reproduction

__all__ = ["Reproduction"]
