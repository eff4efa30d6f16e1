"""Stage 1 (`train`), stage 2 (`finetune`) and calibration; settings, checkpoints, the default bundle."""
