"""``python -m graphprism`` is ``graphprism``."""

from graphprism.cli import main

if __name__ == "__main__":
    main()
