"""``python -m buttress.hooks.swift_plugin`` prints the file for ``--external_plugins``."""

import sys

from buttress.hooks.swift_plugin import PLUGIN

sys.stdout.write(f"{PLUGIN}\n")
