"""`python -m crosshead` is the command `crosshead`."""

from crosshead.cli import main

if __name__ == "__main__":
    main()
