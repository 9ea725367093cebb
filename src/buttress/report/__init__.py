"""How does it look?"""

from buttress.report.diagnosis import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]
