"""For hierarchies of the user's own: where a name belongs, and what can be hoped for before training."""

from unseen.advice.checkup import check_up
from unseen.advice.suggestions import Suggestion, suggest

__all__ = ["Suggestion", "check_up", "suggest"]
