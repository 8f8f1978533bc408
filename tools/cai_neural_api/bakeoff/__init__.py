"""The nine-phase decode-features bake-off of the CAI NEURAL API, run here on the same files with the same tables.

Nine nets of the published size are trained for a while as the library trains, then each is decoded in two or three
ways that must generate the same tokens. What was published stands beside what is found here.
"""

from cai_neural_api.bakeoff.data import BakeData, find_data
from cai_neural_api.bakeoff.files import OutputFolder
from cai_neural_api.bakeoff.report import PhaseReport, RunReport
from cai_neural_api.bakeoff.run import BakeOff
from cai_neural_api.bakeoff.settings import BakeSettings, chosen_phases
from cai_neural_api.choices import TrainerName

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
