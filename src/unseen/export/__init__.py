"""A model as files that run without unseen: ONNX, a page for the browser."""
