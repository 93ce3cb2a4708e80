"""Who leads: a lease in the store, an epoch that fences, and the fabric as a second witness. Pure.

The lease is a key in the store that lasts `lease_ns` unless it is renewed (Gray and Cheriton, "Leases", 1989). Whoever takes
it gets an epoch greater than all before, in one script; frames carry the epoch, and hosts refuse those of a lower one. So an
old leader does no harm whatever it believes; the rules here see to it that it is silent as well.

A leader *leads* until the end of its lease, counted by its own clock from before it asked for it: it has stopped by the time
the store lets another take it. It renews four times a lease. Then:

* refused (another has it, or has had it since): it stands down at once;
* it slept through the end (a stopped process): it stands down when it wakes, before it sends anything;
* nothing is heard of the renewal: it stands down at the end;
* the store is known to be away: it leads on from memory, one lease at a time, for as long as it stays awake. If it is only cut
  off from the store, and another has been elected, it hears that one's heartbeats on the fabric, as every host does:
* a higher epoch is heard on the fabric: it stands down at once.

A candidate takes the lease when the store says that it is free and no leader is heard on the fabric. A leader that is heard
while the lease is free is about to take it back after a loss of the store: only if it hasn't after LEASES_OF_PATIENCE, it is
superseded. A candidate that was itself cut off from the store for a whole lease gives others as long to come back first.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from protocol.units import MILLISECOND_NS

ASKS_A_LEASE = 4
LEASES_OF_PATIENCE = 25
STANDBY_LEASES = 10
"""How many leases a standby waits at its start for a leader that it is to stand by."""


class Ask(Enum):
    """What is to be asked of the store."""

    LOOK = "look"
    """Who holds the lease?"""
    ACQUIRE = "acquire"
    """Take it, if it is free."""
    RENEW = "renew"
    """Ours shall last for another `lease_ns`."""


class Answer(NamedTuple):
    """What the store said: whether the lease is ours, else of whom and for how long it is (epoch 0: of nobody)."""

    held: bool
    epoch: int
    holder: str = ""
    left_ns: int = 0


class Election:
    """One controller's part in it: follows what is heard, says what to ask, and whether it leads.

    Times are of one monotonic clock, which may run on while the process is stopped.
    """

    def __init__(self, *, lease_ns: int, heard_ns: int, standby: bool = False, now_ns: int = 0) -> None:
        """`heard_ns`: a leader that was heard on the fabric so lately is alive. `standby`: leave the first lease to another."""
        self.lease_ns = lease_ns
        self.epoch = 0
        """Ours while we lead, else 0."""
        self.term = 0
        """Grows when we stand down; what was asked in an earlier term counts no more."""
        self.why = ""
        """Why we stood down last."""
        self.holder = ""
        self.highest_epoch = 0
        """The highest that was ever heard of."""
        self.from_memory = False
        """Whether we lead without the store."""
        self._heard_for_ns = heard_ns
        self._standby_until_ns = now_ns + STANDBY_LEASES * lease_ns if standby else 0
        self._until_ns = 0
        self._asked_ns: int | None = None
        self._due_ns = now_ns
        self._heard_ns: int | None = None
        self._free_since_ns: int | None = None
        self._away_since_ns: int | None = None
        self._patient_until_ns = now_ns
        """Until when others may come back first, after the store was away."""

    # -- what happens ---------------------------------------------------------------------------------------------------

    def heard(self, epoch: int, now_ns: int) -> None:
        """An authentic frame of a leader (or of a host that follows one), heard on the fabric."""
        self.highest_epoch = max(self.highest_epoch, epoch)
        if not self.epoch:
            if epoch == self.highest_epoch:
                self._heard_ns = now_ns
                self._standby_until_ns = 0
        elif epoch > self.epoch:
            self._stand_down(f"a leader of epoch {epoch} speaks on the fabric", now_ns)

    def answered(self, answer: Answer, term: int, now_ns: int) -> None:
        """The store's answer to what was asked in this term."""
        asked_ns = self._asked_ns
        if term != self.term or asked_ns is None:
            return
        self._asked_ns = None
        self.highest_epoch = max(self.highest_epoch, answer.epoch)
        if self._away_since_ns is not None and now_ns - self._away_since_ns >= self.lease_ns:
            self._patient_until_ns = now_ns + self.lease_ns
        self._away_since_ns = None
        if self.epoch:
            self._renewed(answer, asked_ns, now_ns)
        elif answer.held:
            self._acquired(answer, asked_ns, now_ns)
        else:
            self._refused(answer, now_ns)

    def away(self, term: int, now_ns: int) -> None:
        """The store can't be asked."""
        if term != self.term:
            return
        self._away_since_ns = now_ns if self._away_since_ns is None else self._away_since_ns
        self._asked_ns = self._free_since_ns = None
        self._due_ns = now_ns + self.lease_ns // ASKS_A_LEASE
        self.tick(now_ns)
        if self.epoch:
            self.from_memory = True
            self._until_ns = now_ns + self.lease_ns
        else:
            self.term += 1  # what was asked may yet be done, unseen: it shall not be taken for the next answer

    def tick(self, now_ns: int) -> None:
        """Time has passed."""
        if self.epoch and now_ns >= self._until_ns:
            self._stand_down("its lease ran out", now_ns)

    def resign(self, why: str, now_ns: int) -> None:
        """We can't go on."""
        if self.epoch:
            self._stand_down(why, now_ns)

    # -- what follows ---------------------------------------------------------------------------------------------------

    def leads(self, now_ns: int) -> bool:
        """Whether we may speak as the leader at this instant."""
        return bool(self.epoch) and now_ns < self._until_ns

    def due_ns(self) -> int:
        """When `tick` and `ask` are to be called next, whatever happens."""
        if self.epoch:
            return self._until_ns if self._asked_ns is not None else min(self._due_ns, self._until_ns)
        return self._due_ns if self._asked_ns is None else self._asked_ns + self.lease_ns

    def ask(self, now_ns: int) -> Ask | None:
        """What to ask of the store now; None while nothing is due or an answer is awaited."""
        if self._asked_ns is not None and (self.epoch or now_ns - self._asked_ns < self.lease_ns):
            return None
        if self._asked_ns is not None:
            self.term += 1  # an answer as late as that would count from long ago
        elif now_ns < self._due_ns:
            return None
        self._asked_ns = now_ns
        self._due_ns = now_ns + self.lease_ns // ASKS_A_LEASE
        if self.epoch:
            return Ask.RENEW
        return Ask.ACQUIRE if self._may_acquire(now_ns) else Ask.LOOK

    def _may_acquire(self, now_ns: int) -> bool:
        if self._away_since_ns is not None or now_ns < max(self._patient_until_ns, self._standby_until_ns):
            return False
        if self._heard_ns is None or now_ns - self._heard_ns >= self._heard_for_ns:
            return True
        free_ns = self._free_since_ns
        return free_ns is not None and now_ns - free_ns >= LEASES_OF_PATIENCE * self.lease_ns

    def _renewed(self, answer: Answer, asked_ns: int, now_ns: int) -> None:
        if not answer.held or answer.epoch != self.epoch:
            self._stand_down(f"{answer.holder or 'another'} leads in epoch {answer.epoch}", now_ns)
            return
        self.from_memory = False
        if now_ns < self._until_ns:  # an answer that comes after the end does not wake the dead
            self._until_ns = max(self._until_ns, asked_ns + self.lease_ns)
        self.tick(now_ns)

    def _acquired(self, answer: Answer, asked_ns: int, now_ns: int) -> None:
        self.holder = ""
        if now_ns >= asked_ns + self.lease_ns:
            self._stand_down("its lease ran out before it was heard of", now_ns)
            return
        self.epoch, self._until_ns, self.from_memory = answer.epoch, asked_ns + self.lease_ns, False
        self._heard_ns = self._free_since_ns = None

    def _refused(self, answer: Answer, now_ns: int) -> None:
        self.holder = answer.holder
        if answer.epoch:
            self._free_since_ns = None
            self._standby_until_ns = 0
            self._due_ns = min(self._due_ns, now_ns + answer.left_ns + MILLISECOND_NS)
        elif self._free_since_ns is None:
            self._free_since_ns = now_ns
            if self._may_acquire(now_ns):
                self._due_ns = now_ns

    def _stand_down(self, why: str, now_ns: int) -> None:
        self.epoch, self.why, self.from_memory = 0, why, False
        self.term += 1
        self._asked_ns = None
        self._due_ns = now_ns + self.lease_ns // ASKS_A_LEASE
