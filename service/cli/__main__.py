"""``python -m service.cli``: the same as the console command ``kernelsmith``."""

from service.cli import main

if __name__ == "__main__":
    main()
