"""``python -m segcertify``: the command line, also for torchrun."""

from segcertify.cli import main

if __name__ == "__main__":
    main()
