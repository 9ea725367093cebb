"""The file that ``swift rlhf --external_plugins`` imports; it does nothing for anybody else."""

import sys

from buttress.hooks.swift_plugin import install

if "swift" in sys.modules:
    install()
