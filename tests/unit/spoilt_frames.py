"""A network that damages frames and repeats them, by a seeded generator."""

from __future__ import annotations

from random import Random


class SpoilingNetwork:
    """Passes most frames as they are; repeats one of the last 31, or damages, cuts or lengthens one, now and then."""

    def __init__(self, dice: Random, *, share: float) -> None:
        """`share` of the frames are damaged, cut or lengthened; a twentieth are replaced by an earlier one."""
        self._dice = dice
        self._share = share
        self._passed: list[bytes] = []

    def passed(self, raw: bytes) -> bytes:
        """What arrives of a frame."""
        dice = self._dice
        if self._passed and dice.random() < 0.05:
            return dice.choice(self._passed)
        self._passed = [*self._passed[-30:], raw]
        if dice.random() > self._share:
            return raw
        spoilt, how = bytearray(raw), dice.random()
        if how < 0.6:
            spoilt[dice.randrange(len(raw))] ^= 1 << dice.randrange(8)
        elif how < 0.8:
            del spoilt[dice.randrange(1, len(raw)) :]
        else:
            spoilt += bytes(dice.randrange(1, 40))
        return bytes(spoilt)
