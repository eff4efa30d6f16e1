"""Taking the result away: ONNX, torch and timm files that need no unseen to run."""

from unseen.exporting.files import export

__all__ = ["export"]
