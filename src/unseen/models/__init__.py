"""The graph networks, one file a paper: dgp, sgcn, gcnz, gat."""
