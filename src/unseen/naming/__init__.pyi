from .candidates import register_candidates

__all__ = ["register_candidates"]
