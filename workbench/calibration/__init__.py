"""Sequential temperature scaling: confidences whose products are survival probabilities."""

from workbench.calibration.document import read_calibration
from workbench.calibration.fit import fit_calibration
from workbench.calibration.model import Calibration

__all__ = ["Calibration", "fit_calibration", "read_calibration"]
