"""Capture sizes other than the ones a profile was measured with."""

from __future__ import annotations

import msgspec

from workbench.errors import InputError
from workbench.profiles.cost import StepCost
from workbench.profiles.interpolate import Curve
from workbench.profiles.profile import Beyond, Graphs, Profile

LARGEST = 1 << 20  # captured batch tokens


def ladder(text: str, drafts: int = 0) -> list[int]:
    """Captured batch tokens, ascending, from a name or a list; empty for ``none``.

    ``vllm``: 1, 2, 4, then every 8 to 256 and every 16 to 512 (vLLM's default when neither sizes
    nor a limit are set). ``sglang``: its batch sizes up to 256 (with drafts: the denser ladder of
    speculative decoding) times 1 + ``drafts`` tokens (SGLang's server arguments). Else a list as
    in ``1,2,4,8-256:8,512``. Raises InputError for anything else.
    """
    if text == "none":
        return []
    if text == "vllm":
        return [1, 2, 4, *range(8, 257, 8), *range(272, 513, 16)]
    if text == "sglang":
        if drafts:
            sizes = [*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8)]
        else:
            sizes = [1, 2, 4, 8, 12, *range(16, 257, 8)]
        return [size * (1 + drafts) for size in sizes]
    sizes: set[int] = set()
    for part in text.split(","):
        try:
            span, colon, step = part.partition(":")
            first, dash, last = span.partition("-")
            low, high = int(first), int(last if dash else first)
            every = int(step) if colon else 1
            if not (1 <= low <= high <= LARGEST and every >= 1 and (dash or not colon)):
                raise ValueError(part)
            sizes.update(range(low, high + 1, every))
        except ValueError:
            raise InputError(
                f"'{part}' is neither a size nor a range of sizes",
                place=f"--graph-sizes {text}",
                mend="write vllm, sglang, none, or sizes as in 1,2,4,8-256:8",
            ) from None
    return sorted(sizes)


def with_graph_sizes(profile: Profile, sizes: list[int]) -> Profile:
    """The profile with other captured sizes; without any, nothing is padded.

    Past a lower limit than the measured one, steps run eagerly at sizes where eager steps were not
    measured. There the eager step costs the graph's plus the constant that lies between the two at
    the first size where both are known (launch overhead). Past a higher limit the measured eager
    curve goes on, and the graph curve is extended by the rules of the cost model.
    """
    if not sizes:
        return msgspec.structs.replace(profile, graphs=None)
    beyond = profile.graphs.beyond if profile.graphs else None
    if beyond is not None:
        beyond = _eager(profile, beyond, sizes[-1])
    requests = profile.graphs.requests if profile.graphs else None
    graphs = Graphs(batch_tokens=sizes, beyond=beyond, requests=requests)
    return msgspec.structs.replace(profile, graphs=graphs)


def _eager(profile: Profile, beyond: Beyond, limit: int) -> Beyond:
    """The eager curve from just past ``limit`` tokens on."""
    bare = StepCost(msgspec.structs.replace(profile, graphs=None))
    curve = Curve(beyond.batch_tokens, beyond.seconds)
    first = beyond.batch_tokens[0]
    overhead = max(0.0, beyond.seconds[0] - bare.verify_seconds(first))
    points = {limit + 1, 2 * limit + 2, *beyond.batch_tokens, first - 1}
    points |= {tokens for tokens in profile.verify.batch_tokens if tokens < first}
    tokens = sorted(point for point in points if point > limit)
    return Beyond(
        batch_tokens=tokens,
        seconds=[
            curve.at(count) if count >= first else bare.verify_seconds(count) + overhead
            for count in tokens
        ],
    )
