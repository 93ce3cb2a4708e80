"""Which controller leads: a lease in the store, an epoch that fences, and the heartbeats on the fabric as a check. Pure.

The lease is a key in the store that lasts `lease_ns` unless it is renewed (Gray and Cheriton, "Leases", 1989). The script that
takes it also gives out an epoch greater than all before. Frames carry the epoch, and hosts refuse frames of a lower one. So an
old leader does no harm; the rules here make it silent as well.

A leader *leads* until the end of its lease, counted by its own clock from before it asked for the lease: so it has stopped by
the time the store gives the lease to another. It renews four times a lease. Then:

* the store refuses (another has the lease, or has had it since): the leader stands down at once;
* the lease has run out (the leader slept, its machine was too busy, or the renewal was not answered): the leader is silent, and
  asks on. If the store says within LEASES_OF_SILENCE that nobody has led since, it leads on in its epoch, and hosts need not
  register anew; else it stands down;
* the elector reports in time that the store is away: the leader leads on from memory, one lease at a time, for as long as it
  stays awake. If only this leader is cut off from the store, and another has been elected, it receives that one's heartbeats on
  the fabric, as every host does, and the next rule applies:
* a frame of a higher epoch arrives from the fabric: the leader stands down at once;
* a frame of a higher epoch arrived while the store's answer was under way (it had lost its data, and that leader lives): the
  lease does not count, and the elector gives it back.

A candidate takes the lease when the store says that it is free and no leader's heartbeats arrive from the fabric. A leader
whose heartbeats arrive while the lease is free is about to take it back after the store lost it: the candidate supersedes it
only after LEASES_OF_PATIENCE. A candidate that was itself cut off from the store for a whole lease waits as long again, so that
others can come back first.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from protocol.units import MILLISECOND_NS

ASKS_A_LEASE = 4
LEASES_OF_PATIENCE = 25
LEASES_OF_SILENCE = 5
STANDBY_LEASES = 10
"""How many leases a standby waits at its start for a leader."""


class Ask(Enum):
    """A question to the store."""

    LOOK = "look"
    """Which controller holds the lease?"""
    ACQUIRE = "acquire"
    """Give us the lease, if it is free."""
    RENEW = "renew"
    """Prolong our lease by `lease_ns`."""


class Answer(NamedTuple):
    """The store's answer: whether the lease is ours, else its holder and the time left (epoch 0: it is free)."""

    held: bool
    epoch: int
    holder: str = ""
    left_ns: int = 0


class Election:
    """One controller in the election: takes answers and heartbeats, says what to ask the store, and whether we lead.

    Times are of one monotonic clock, which may run on while the process is stopped.
    """

    def __init__(self, *, lease_ns: int, heard_ns: int, standby: bool = False, now_ns: int = 0) -> None:
        """`heard_ns`: a leader counts as alive for so long after a frame of it. `standby`: leave the first lease to another."""
        self.lease_ns = lease_ns
        self.epoch = 0
        """Our epoch while we lead, or our lease has run out and may come back; else 0."""
        self.term = 0
        """Grows when we stand down; answers to questions of an earlier term do not count."""
        self.why = ""
        """Why we last stood down."""
        self.holder = ""
        self.highest_epoch = 0
        """The highest epoch in any answer or frame."""
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
        """After the store was away: until when others may come back first."""

    # -- what happens ---------------------------------------------------------------------------------------------------

    def heard(self, epoch: int, now_ns: int) -> None:
        """An authentic frame of a leader, or of a host that follows one, has arrived from the fabric."""
        self.highest_epoch = max(self.highest_epoch, epoch)
        if not self.epoch:
            if epoch == self.highest_epoch:
                self._heard_ns = now_ns
                self._standby_until_ns = 0
        elif epoch > self.epoch:
            self._stand_down(f"a leader of epoch {epoch} speaks on the fabric", now_ns)

    def answered(self, answer: Answer, term: int, now_ns: int) -> None:
        """The store has answered a question of this term."""
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
        """The elector can't reach the store."""
        if term != self.term:
            return
        self._away_since_ns = now_ns if self._away_since_ns is None else self._away_since_ns
        self._asked_ns = self._free_since_ns = None
        self._due_ns = now_ns + self.lease_ns // ASKS_A_LEASE
        self.tick(now_ns)
        if self.leads(now_ns):
            self.from_memory = True
            self._until_ns = now_ns + self.lease_ns
        elif not self.epoch:
            self.term += 1  # the store may yet answer the last question: not to be taken for the next answer

    def tick(self, now_ns: int) -> None:
        """Stands down if the lease has run out, and the store has not given it back for so long."""
        if self.epoch and now_ns >= self._silent_until_ns():
            self._stand_down("its lease ran out", now_ns)

    def twin(self, now_ns: int) -> None:
        """Another leader of our epoch speaks on the fabric, and is to go on: two stores gave out one epoch."""
        if self.epoch:
            self._stand_down(f"another leader of epoch {self.epoch} speaks on the fabric", now_ns)

    def resign(self, why: str, now_ns: int) -> None:
        """Stands down because this process can't go on."""
        if self.epoch:
            self._stand_down(why, now_ns)

    # -- what follows ---------------------------------------------------------------------------------------------------

    def leads(self, now_ns: int) -> bool:
        """Whether we may send frames as the leader at this instant."""
        return bool(self.epoch) and now_ns < self._until_ns

    def until_ns(self) -> int:
        """Until when we may send frames as the leader, if nothing else happens; 0: we do not lead."""
        return self._until_ns if self.epoch else 0

    def due_ns(self) -> int:
        """When to call `tick` and `ask` next, if nothing else happens."""
        if self.epoch:
            silent_ns = self._silent_until_ns()
            return silent_ns if self._asked_ns is not None else min(self._due_ns, silent_ns)
        return self._due_ns if self._asked_ns is None else self._asked_ns + self.lease_ns

    def ask(self, now_ns: int) -> Ask | None:
        """The question for the store now; None while none is due, or while we wait for an answer."""
        if self._asked_ns is not None and (self.epoch or now_ns - self._asked_ns < self.lease_ns):
            return None
        if self._asked_ns is not None:
            self.term += 1  # so late an answer would count from too long ago
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
        self._until_ns = max(self._until_ns, asked_ns + self.lease_ns)
        self.tick(now_ns)

    def _silent_until_ns(self) -> int:
        return self._until_ns + LEASES_OF_SILENCE * self.lease_ns

    def _acquired(self, answer: Answer, asked_ns: int, now_ns: int) -> None:
        self.holder = ""
        if now_ns >= asked_ns + self.lease_ns:
            self._stand_down("its lease ran out before it was heard of", now_ns)
            return
        if answer.epoch < self.highest_epoch:  # hosts would refuse what we send
            self._stand_down(f"its lease is of epoch {answer.epoch}, and epoch {self.highest_epoch} was heard", now_ns)
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
