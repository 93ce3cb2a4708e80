"""Which controller leads, with a simulated store that has the semantics of the scripts, and candidates that sleep, are cut off
or get answers late."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.election.rules import LEASES_OF_PATIENCE, LEASES_OF_SILENCE, STANDBY_LEASES, Answer, Ask, Election

MS = 1_000_000
LEASE = 200 * MS
HEARD = 50 * MS


@dataclass
class SimulatedStore:
    """The lease and the epoch as controller/election/lease.py keeps them."""

    epoch: int = 0
    token: object = None
    holder: str = ""
    until_ns: int = 0
    given_out: list[tuple[int, object]] = field(default_factory=list)

    def do(self, ask: Ask, token: object, name: str, epoch: int, highest: int, now_ns: int) -> Answer:
        held = self.token if now_ns < self.until_ns else None
        if held is not None and held != token:
            return Answer(False, self.epoch, self.holder, self.until_ns - now_ns)
        if ask is Ask.LOOK:
            return Answer(False, self.epoch if held is not None else 0, self.holder if held is not None else "", 0)
        if ask is Ask.RENEW:
            if self.epoch > epoch:
                return Answer(False, self.epoch)
            self.epoch = epoch
        else:
            self.epoch = max(self.epoch + 1, highest + 1)
            self.given_out.append((self.epoch, token))
        self.token, self.holder, self.until_ns = token, name, now_ns + LEASE
        return Answer(True, self.epoch, name)

    def lose(self) -> None:
        """All data are gone."""
        self.epoch, self.token, self.until_ns = 0, None, 0


class Controller:
    """One election with its elector: an ask is done by the store after `delay_ns`, and answered after as long again."""

    def __init__(self, name: str, *, standby: bool = False) -> None:
        self.name = name
        self.election = Election(lease_ns=LEASE, heard_ns=HEARD, standby=standby)
        self.frozen_until_ns = 0
        self.cut_off = self.deaf = False
        self.delay_ns = MS
        self._asked: list[tuple[int, Ask, int, int, int]] = []
        self._answers: list[tuple[int, Answer | None, int]] = []

    def step(self, store: SimulatedStore, now_ns: int) -> None:
        for asked in [asked for asked in self._asked if asked[0] <= now_ns]:
            self._asked.remove(asked)
            due_ns, ask, term, epoch, highest = asked
            answer = None if self.cut_off else store.do(ask, (self.name, term), self.name, epoch, highest, now_ns)
            self._answers.append((due_ns + self.delay_ns, answer, term))
        if now_ns < self.frozen_until_ns:
            return
        for reply in [reply for reply in self._answers if reply[0] <= now_ns]:
            self._answers.remove(reply)
            if reply[1] is None:
                self.election.away(reply[2], now_ns)
            else:
                self.election.answered(reply[1], reply[2], now_ns)
        self.election.tick(now_ns)
        if (ask := self.election.ask(now_ns)) is not None:
            election = self.election
            self._asked.append((now_ns + self.delay_ns, ask, election.term, election.epoch, election.highest_epoch))

    def speaks(self, now_ns: int) -> bool:
        return now_ns >= self.frozen_until_ns and self.election.leads(now_ns)


@dataclass
class World:
    """Controllers at one store and one fabric; heartbeats take a tick."""

    controllers: list[Controller]
    store: SimulatedStore = field(default_factory=SimulatedStore)
    now_ns: int = 0
    terms: dict[int, set[str]] = field(default_factory=dict)
    highest_spoken: int = 0
    overlaps: int = 0
    tick_ns: int = 5 * MS

    def run(self, duration_ns: int) -> None:
        end = self.now_ns + duration_ns
        while self.now_ns < end:
            self.now_ns += self.tick_ns
            for controller in self.controllers:
                controller.step(self.store, self.now_ns)
            speaking = [controller for controller in self.controllers if controller.speaks(self.now_ns)]
            self.overlaps += len(speaking) > 1
            for speaker in speaking:
                if not speaker.speaks(self.now_ns):
                    continue  # it has just heard another one of these
                epoch = speaker.election.epoch
                self.terms.setdefault(epoch, set()).add(speaker.name)
                self.highest_spoken = max(self.highest_spoken, epoch)
                for other in self.controllers:
                    if other is not speaker and not other.deaf and not speaker.deaf and self.now_ns >= other.frozen_until_ns:
                        other.election.heard(epoch, self.now_ns)

    def leaders(self) -> list[str]:
        return [controller.name for controller in self.controllers if controller.speaks(self.now_ns)]


def pair(**options: bool) -> tuple[World, Controller, Controller]:
    first, second = Controller("a"), Controller("b", **options)
    return World([first, second]), first, second


class TestOneLeader:
    """In quiet times."""

    def test_somebody_leads_at_once_and_goes_on(self) -> None:
        world, _, _ = pair()
        world.run(50 * MS)
        before = world.leaders()
        world.run(5_000 * MS)
        assert len(before) == 1 and world.leaders() == before and len(world.terms) == 1

    def test_a_standby_leaves_the_first_lease_to_another(self) -> None:
        first, second = Controller("a"), Controller("b", standby=True)
        world = World([second, first])
        first.frozen_until_ns = world.now_ns + LEASE
        world.run(2 * LEASE)
        assert world.leaders() == ["a"]

    def test_a_standby_that_finds_nobody_leads_after_a_while(self) -> None:
        world = World([Controller("b", standby=True)], now_ns=0)
        world.run(STANDBY_LEASES * LEASE // 2)
        assert world.leaders() == []
        world.run(STANDBY_LEASES * LEASE)
        assert world.leaders() == ["b"]


class TestFailover:
    """A leader that is gone is followed by another, under a higher epoch."""

    def test_the_other_leads_when_the_lease_has_run_out_and_no_sooner(self) -> None:
        world, first, _ = pair(standby=True)
        world.run(1_000 * MS)
        first.frozen_until_ns = 1 << 62
        world.run(LEASE // 2)
        assert world.leaders() == []
        world.run(LEASE // 2 + 20 * MS)
        assert world.leaders() == ["b"] and world.overlaps == 0

    def test_a_leader_that_slept_does_not_speak_when_it_wakes(self) -> None:
        world, first, _ = pair(standby=True)
        world.run(1_000 * MS)
        first.frozen_until_ns = world.now_ns + 10 * LEASE
        first.deaf = True  # it does not even hear the new one
        world.run(20 * LEASE)
        assert world.leaders() == ["b"] and world.overlaps == 0
        assert "ran out" in first.election.why

    def test_a_leader_whose_lease_ran_out_is_silent_until_the_store_gives_it_back(self) -> None:
        world, first = (lambda one: (World([one]), one))(Controller("a"))
        world.run(500 * MS)
        epoch = first.election.epoch
        first.frozen_until_ns = world.now_ns + 2 * LEASE
        world.run(2 * LEASE)
        assert world.leaders() == [] and first.election.epoch == epoch
        world.run(20 * MS)
        assert world.leaders() == ["a"] and list(world.terms) == [epoch], "hosts need not register anew"

    def test_a_leader_whose_lease_ran_out_stands_down_when_another_has_led_since(self) -> None:
        world, first, second = pair(standby=True)
        world.run(500 * MS)
        epoch = first.election.epoch
        first.frozen_until_ns, first.deaf = world.now_ns + 4 * LEASE, True
        world.run(2 * LEASE)
        assert world.leaders() == ["b"]
        second.frozen_until_ns = 1 << 62  # its lease is free again when the first leader wakes and asks for its own
        world.run(2 * LEASE)
        assert world.leaders() == [] and first.election.epoch == epoch
        world.run(20 * MS)
        assert not first.election.epoch and "leads in epoch" in first.election.why

    def test_a_leader_whose_lease_ran_out_does_not_lead_on_from_memory(self) -> None:
        world, first = (lambda one: (World([one]), one))(Controller("a"))
        world.run(500 * MS)
        first.frozen_until_ns, first.cut_off = world.now_ns + 2 * LEASE, True
        world.run(4 * LEASE)
        assert world.leaders() == [] and not first.election.from_memory
        world.run(LEASES_OF_SILENCE * LEASE)
        assert not first.election.epoch and "ran out" in first.election.why

    def test_a_leader_stands_down_when_a_higher_epoch_is_heard(self) -> None:
        world, _, _ = pair()
        world.run(100 * MS)
        leader = next(c for c in world.controllers if c.name in world.leaders())
        leader.election.heard(leader.election.epoch + 5, world.now_ns)
        assert not leader.election.leads(world.now_ns) and "fabric" in leader.election.why

    def test_a_lower_epoch_on_the_fabric_is_no_reason(self) -> None:
        world, _, _ = pair()
        world.run(100 * MS)
        leader = next(c for c in world.controllers if c.name in world.leaders())
        leader.election.heard(leader.election.epoch - 1, world.now_ns)
        assert leader.election.leads(world.now_ns)


    def test_a_lease_of_a_lower_epoch_than_one_heard_meanwhile_does_not_count(self) -> None:
        candidate = Election(lease_ns=LEASE, heard_ns=HEARD)
        assert candidate.ask(0) is Ask.ACQUIRE
        candidate.heard(9, MS)  # of a leader that was stopped while the store lost its data
        candidate.answered(Answer(True, 5, "b"), candidate.term, 2 * MS)
        assert not candidate.leads(2 * MS) and candidate.epoch == 0 and candidate.highest_epoch == 9
        again_ns = candidate.due_ns() + HEARD
        assert candidate.ask(again_ns) is Ask.ACQUIRE
        candidate.answered(Answer(True, 10, "b"), candidate.term, again_ns)
        assert candidate.leads(again_ns) and candidate.epoch == 10


class TestWithoutTheStore:
    """A store that is away costs nothing; one that is back has the same leader."""

    def test_the_leader_leads_on_from_memory_and_takes_its_lease_back(self) -> None:
        world, first, second = pair(standby=True)
        world.run(500 * MS)
        first.cut_off = second.cut_off = True
        world.run(2_000 * MS)
        assert world.leaders() == ["a"] and first.election.from_memory
        world.store.lose()
        first.cut_off = second.cut_off = False
        world.run(2_000 * MS)
        assert world.leaders() == ["a"] and not first.election.from_memory
        assert len(world.terms) == 1 and world.store.holder == "a"

    def test_a_leader_that_alone_is_cut_off_is_superseded_in_the_end_and_hears_of_it(self) -> None:
        world, first, _ = pair(standby=True)
        world.run(500 * MS)
        first.cut_off = True
        world.run(LEASES_OF_PATIENCE * LEASE // 2)
        assert world.leaders() == ["a"]
        world.run(LEASES_OF_PATIENCE * LEASE)
        assert world.leaders() == ["b"] and world.overlaps <= 1  # one tick: the way of the first heartbeat

    def test_a_leader_that_dies_while_the_store_is_away_is_followed_when_it_is_back(self) -> None:
        world, first, second = pair(standby=True)
        world.run(500 * MS)
        first.cut_off = second.cut_off = True
        first.frozen_until_ns = 1 << 62
        world.run(1_000 * MS)
        assert world.leaders() == []
        second.cut_off = False
        world.run(3 * LEASE)
        assert world.leaders() == ["b"]

    def test_a_leader_that_hears_nothing_of_its_renewal_stops_before_its_lease_ends(self) -> None:
        world, first, _ = pair(standby=True)
        world.run(500 * MS)
        first.delay_ns = 1 << 50  # an elector that hangs
        while first.election.leads(world.now_ns):
            world.run(5 * MS)
            assert not first.election.leads(world.now_ns) or world.now_ns < world.store.until_ns


Actions = st.lists(
    st.tuples(
        st.sampled_from(["freeze", "cut", "mend", "slow", "deafen", "lose", "quick"]),
        st.integers(0, 2),
        st.integers(5, 900),
        st.integers(1, 160),
    ),
    max_size=30,
)


class TestWhateverHappens:
    """Freezes, cuts, delays and losses of the store, in any order."""

    @settings(max_examples=75, deadline=None)
    @given(actions=Actions)
    def test_no_two_lead_under_one_epoch_and_epochs_only_grow(self, actions: list[tuple[str, int, int, int]]) -> None:
        world = World([Controller("a"), Controller("b"), Controller("c", standby=True)])
        spoken = 0
        for what, which, wait_ms, delay_ms in actions:
            controller = world.controllers[which]
            if what == "freeze":
                controller.frozen_until_ns = world.now_ns + wait_ms * MS
            elif what in ("cut", "mend"):
                controller.cut_off = what == "cut"
            elif what == "slow":
                controller.delay_ns = delay_ms * MS
            elif what == "quick":
                controller.delay_ns = MS
            elif what == "deafen":
                controller.deaf = not controller.deaf
            world.run(wait_ms * MS)
            assert world.highest_spoken >= spoken
            spoken = world.highest_spoken
        assert all(len(names) == 1 for names in world.terms.values())
        epochs = [epoch for epoch, _ in world.store.given_out]
        assert epochs == sorted(set(epochs))

    @settings(max_examples=75, deadline=None)
    @given(actions=Actions)
    def test_with_a_store_that_is_never_away_no_two_ever_lead_at_once(self, actions: list[tuple[str, int, int, int]]) -> None:
        world = World([Controller("a"), Controller("b"), Controller("c", standby=True)])
        for what, which, wait_ms, delay_ms in actions:
            controller = world.controllers[which]
            if what == "freeze":
                controller.frozen_until_ns = world.now_ns + wait_ms * MS
            elif what == "slow":
                controller.delay_ns = delay_ms * MS
            elif what == "deafen":
                controller.deaf = not controller.deaf
            world.run(wait_ms * MS)
            assert world.overlaps == 0

    @settings(max_examples=60, deadline=None)
    @given(actions=Actions)
    def test_when_all_is_well_again_somebody_leads(self, actions: list[tuple[str, int, int, int]]) -> None:
        world = World([Controller("a"), Controller("b"), Controller("c")])
        for what, which, wait_ms, delay_ms in actions:
            controller = world.controllers[which]
            controller.cut_off = what == "cut"
            controller.delay_ns = delay_ms * MS
            if what == "lose":
                world.store.lose()
            world.run(wait_ms * MS)
        for controller in world.controllers:
            controller.cut_off, controller.delay_ns = False, MS
        world.run((LEASES_OF_PATIENCE + 3) * LEASE)
        assert len(world.leaders()) == 1
