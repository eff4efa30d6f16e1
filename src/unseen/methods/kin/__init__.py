"""kin: a class's classifier from those of its kin, by kernel ridge regression in closed form."""

from unseen.methods.kin.kin import Kin, KinSettings, Ridges

__all__ = ["Kin", "KinSettings", "Ridges"]
