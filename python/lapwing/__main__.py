"""python -m lapwing [-o FILE] [-s KEY] [-m MODULE | SCRIPT] [ARG...]; see _main.py."""

from lapwing._main import main

if __name__ == "__main__":
    main()
