"""Graph networks: dgp, sgcn, gcnz and gat, trained on the receptive field of the seen classes."""
