"""Step costs: profiles as measured, the truth they charge and what planners believe."""

from workbench.profiles.cost import StepCost, StepParts
from workbench.profiles.ladders import ladder, with_graph_sizes
from workbench.profiles.lookup import Lookup
from workbench.profiles.planner import Belief, TableBelief, TruthBelief
from workbench.profiles.planner_tables import profile_belief, read_planner_table
from workbench.profiles.profile import FORMAT, Profile
from workbench.profiles.reader import default_profile_name, parse_profile, read_profile

__all__ = [
    "FORMAT",
    "Belief",
    "Lookup",
    "Profile",
    "StepCost",
    "StepParts",
    "TableBelief",
    "TruthBelief",
    "default_profile_name",
    "ladder",
    "parse_profile",
    "profile_belief",
    "read_planner_table",
    "read_profile",
    "with_graph_sizes",
]
