"""The nine-phase decode-features bake-off of the CAI NEURAL API, run here on the same files with the same tables.

Nine nets of the published size are trained for a while as the library trains, then each is decoded in two or three
ways that must generate the same tokens. What was published stands beside what is found here.
"""

from cai_conformance.bakeoff.data import BakeData, find_data
from cai_conformance.bakeoff.files import OutputFolder
from cai_conformance.bakeoff.phases import chosen_phases
from cai_conformance.bakeoff.report import PhaseReport, RunReport
from cai_conformance.bakeoff.run import BakeOff
from cai_conformance.bakeoff.settings import BakeSettings, TrainerName

__all__ = [
    "BakeData",
    "BakeOff",
    "BakeSettings",
    "OutputFolder",
    "PhaseReport",
    "RunReport",
    "TrainerName",
    "chosen_phases",
    "find_data",
]
