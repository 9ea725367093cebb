"""``python -m buttress`` is the command ``buttress``."""

from buttress.cli import main

if __name__ == "__main__":
    main()
