"""What is learned on hidden seen classes: the balance between seen and unseen ones."""

from unseen.calibration.fit import calibrate

__all__ = ["calibrate"]
