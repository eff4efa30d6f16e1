"""What every part stands on: files, folders, devices, processes, signals, progress. Knows nothing of classes."""
