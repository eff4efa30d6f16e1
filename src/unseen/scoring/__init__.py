"""Photos against classes: which classes are candidates, exact top-k and ranks."""

from unseen.scoring.candidates import resolve_candidates
from unseen.scoring.scorer import Scorer

__all__ = ["Scorer", "resolve_candidates"]
