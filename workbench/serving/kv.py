"""Paged KV cache: blocks are counted, not filled. Finished sessions stay until room is needed."""

from __future__ import annotations

from collections import OrderedDict


class KVCache:
    """Free and held blocks of one replica; ``capacity`` None means unlimited.

    With prefix caching, a finished request of a session leaves its blocks behind for the next
    request of that session; the least recently used sessions are evicted when blocks run short.
    """

    def __init__(self, capacity_tokens: int | None, block_tokens: int):
        self.block = block_tokens
        self.capacity = None if capacity_tokens is None else capacity_tokens // block_tokens
        self.free = (1 << 62) if self.capacity is None else self.capacity
        self._cached: OrderedDict[int, tuple[int, int]] = OrderedDict()  # session: tokens, blocks

    def blocks(self, tokens: int) -> int:
        """Blocks that hold ``tokens``."""
        return -(-tokens // self.block)

    @property
    def cached_blocks(self) -> int:
        """Blocks of finished sessions, which are given up when room is needed."""
        return sum(blocks for _, blocks in self._cached.values())

    def hit(self, session: int, prompt: int) -> int:
        """Prompt tokens of ``session`` in the cache: whole blocks, never all of the prompt."""
        tokens = self._cached.get(session, (0, 0))[0]
        return min(tokens, prompt - 1) // self.block * self.block

    def make_room(self, blocks: int, keep: int | None = None) -> bool:
        """Evict sessions, oldest first and never ``keep``; True once ``blocks`` are free."""
        if self.free < blocks:
            for session in [session for session in self._cached if session != keep]:
                if self.free >= blocks:
                    break
                self.free += self._cached.pop(session)[1]
        return self.free >= blocks

    def take(self, tokens: int, session: int = -1) -> int | None:
        """Blocks for a request of ``tokens``, its session's cached ones reused; None: no room."""
        wanted = self.blocks(tokens)
        held = self._cached.get(session, (0, 0))[1]
        if not self.make_room(wanted - held, keep=session):
            return None
        if held:
            del self._cached[session]
        self.free -= wanted - held
        return wanted

    def give(self, blocks: int, session: int = -1, tokens: int = 0) -> None:
        """Return a request's blocks; those of a session's ``tokens`` stay cached."""
        stay = min(blocks, tokens // self.block) if session >= 0 else 0
        if session >= 0:
            self.free += self._cached.pop(session, (0, 0))[1]
        if stay:
            self._cached[session] = (stay * self.block, stay)
        self.free += blocks - stay
