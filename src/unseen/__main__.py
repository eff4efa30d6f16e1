"""`python -m unseen`, which is also how torchrun starts it."""

from unseen.cli import main

main()
