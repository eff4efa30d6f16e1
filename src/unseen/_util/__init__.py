"""Shared tools: files, arrays, devices, processes, progress, text; knows nothing of classes."""
