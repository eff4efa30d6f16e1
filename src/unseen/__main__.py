"""`python -m unseen`, which is also how torchrun starts it."""

from unseen.apps.cli import main

main()
