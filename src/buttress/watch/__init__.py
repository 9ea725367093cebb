"""And while it is written? Follows the files of a running job."""

from buttress.watch.files import KeptFiles
from buttress.watch.watcher import Look, Watcher

__all__ = ["KeptFiles", "Look", "Watcher"]
