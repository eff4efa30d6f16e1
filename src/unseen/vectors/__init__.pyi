from .class_vectors import ClassVectors

__all__ = [
    "ClassVectors",
]
