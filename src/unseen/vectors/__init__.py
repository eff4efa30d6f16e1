"""Class names -> class vectors: built-in GloVe and sentence encodings, files of word vectors, any callable."""
