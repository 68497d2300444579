"""Engine settings of a replica, and what is wrong with them said early."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import InputError

QUEUES = ("fcfs", "priority", "shortest")


@dataclass(frozen=True, slots=True)
class Options:
    """Settings as engines have them; the defaults are those of design §6."""

    max_running: int = 256  # requests that hold a slot, prefilling or decoding
    token_budget: int = 8192  # batch tokens of a step
    prefill_first: bool = False  # prefill steps apart from decode steps (SGLang), else mixed (vLLM)
    synchronous: bool | None = None  # None: what the scheduler needs
    kv_tokens: int | None = None  # KV capacity in tokens; None: the profile's, else unlimited
    queue: str = "fcfs"  # waiting order: fcfs, priority (lowest first), shortest (prompt)
    prefix_caching: bool = False
    undrafted_loss: float = 0.0
    """Acceptance lost per share of the context without draft keys and values: a draft that would
    pass does so with probability 1 − loss × share. 0: restored prefixes do not hurt the drafter."""
    uniform_width: bool = False  # the padded verifier runs all drafts, whatever is trimmed
    align: bool = False  # fill the padded graph with the next most likely drafts
    record_steps: bool = False  # keep every step, for a timeline
    compiled: bool = True  # False: step by step in Python, for comparison

    @property
    def slots(self) -> int:
        """Requests that run at once: each needs a token of the budget in every step."""
        return min(self.max_running, self.token_budget)

    def __post_init__(self):
        if self.queue not in QUEUES:
            raise InputError(f"no queue '{self.queue}'", mend=f"there are {', '.join(QUEUES)}")
