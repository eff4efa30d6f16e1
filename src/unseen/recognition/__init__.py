"""A bundle and its network at work: photos in, labels out, and why."""

from unseen.recognition.answers import Answer, Guess, Label, Unreadable
from unseen.recognition.explanations import Explanation, explain
from unseen.recognition.heatmap import HeatMap
from unseen.recognition.photo_features import PhotoFeatures
from unseen.recognition.recogniser import Recogniser

__all__ = ["Answer", "Explanation", "Guess", "HeatMap", "Label", "PhotoFeatures", "Recogniser", "Unreadable", "explain"]
