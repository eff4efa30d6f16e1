"""A bundle and its network at work: photos in, labels out, and why."""

from unseen.recognition.explanations import Explanation, explain
from unseen.recognition.labels import Label
from unseen.recognition.recogniser import Recogniser

__all__ = ["Explanation", "Label", "Recogniser", "explain"]
