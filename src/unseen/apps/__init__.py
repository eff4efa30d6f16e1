"""What people run: the command line, the web page, bulk labelling, exports, scikit-learn."""
