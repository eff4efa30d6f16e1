"""Photos against classes: which classes are candidates, exact top-k and ranks."""

from unseen.scoring.candidates import resolve_candidates

__all__ = ["resolve_candidates"]
