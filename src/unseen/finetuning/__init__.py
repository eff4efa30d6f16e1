"""Stage 2: finetune the network under the predicted classifiers of the seen classes."""

from unseen.finetuning.settings import FinetuneSettings
from unseen.finetuning.stage2 import finetune

__all__ = ["FinetuneSettings", "finetune"]
