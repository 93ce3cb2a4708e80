"""The election's rules one by one, at the instants at which they begin to hold."""

from __future__ import annotations

import pytest

from controller.election.rules import LEASES_OF_PATIENCE, LEASES_OF_SILENCE, Answer, Ask, Election

MS = 1_000_000
LEASE = 200 * MS
HEARD = 50 * MS
FREE = Answer(False, 0)


def candidate(*, standby: bool = False) -> Election:
    return Election(lease_ns=LEASE, heard_ns=HEARD, standby=standby)


def leader(epoch: int = 5) -> Election:
    """One that asked for the lease at 0."""
    made = candidate()
    assert made.ask(0) is Ask.ACQUIRE
    made.answered(Answer(True, epoch, "a"), made.term, MS)
    assert made.leads(MS)
    return made


def told(election: Election, answer: Answer, now_ns: int) -> None:
    """The store answers the last question."""
    election.answered(answer, election.term, now_ns)


class TestHeartbeats:
    """What frames from the fabric mean to a leader and to a candidate."""

    def test_a_leader_that_hears_its_own_followers_leads_on(self) -> None:
        election = leader(5)
        election.heard(5, 2 * MS)
        assert election.leads(2 * MS)

    @pytest.mark.parametrize(("after_ns", "ask"), [(HEARD - 1, Ask.LOOK), (HEARD, Ask.ACQUIRE)])
    def test_a_leader_counts_as_alive_for_so_long_after_its_last_frame(self, after_ns: int, ask: Ask) -> None:
        election = candidate()
        election.heard(9, 0)
        assert election.ask(after_ns) is ask

    def test_frames_of_a_lower_epoch_than_the_highest_keep_no_leader_alive(self) -> None:
        election = candidate()
        election.heard(9, 0)
        election.heard(8, HEARD - MS)
        assert election.ask(HEARD) is Ask.ACQUIRE

    def test_a_standby_that_has_heard_a_leader_follows_it_as_soon_as_it_is_silent(self) -> None:
        election = candidate(standby=True)
        election.heard(3, 0)
        assert election.ask(HEARD) is Ask.ACQUIRE

    def test_a_standby_that_was_told_of_a_leader_asks_for_the_lease_when_it_is_over(self) -> None:
        election = candidate(standby=True)
        assert election.ask(0) is Ask.LOOK
        told(election, Answer(False, 3, "a", 10 * MS), MS)
        assert election.due_ns() == 12 * MS, "a millisecond after its end"
        assert election.ask(12 * MS) is Ask.ACQUIRE

    def test_a_candidate_asks_at_once_when_the_lease_is_free_and_the_leader_silent(self) -> None:
        election = candidate()
        election.heard(3, 0)
        assert election.ask(10 * MS) is Ask.LOOK
        told(election, FREE, HEARD)
        assert election.due_ns() == HEARD and election.ask(HEARD) is Ask.ACQUIRE

    def test_a_leader_that_is_heard_while_the_lease_is_free_is_superseded_only_after_long_patience_each_time(self) -> None:
        election, now_ns = candidate(), 0
        for epoch in (3, 4):
            began_ns = now_ns
            while now_ns < began_ns + LEASES_OF_PATIENCE * LEASE:
                election.heard(epoch, now_ns)
                if (ask := election.ask(now_ns)) is not None:
                    assert ask is Ask.LOOK
                    told(election, FREE, now_ns)
                now_ns += LEASE // 4
            election.heard(epoch, now_ns)
            assert election.ask(now_ns) is Ask.ACQUIRE
            told(election, Answer(True, epoch + 1, "b"), now_ns)
            assert election.leads(now_ns)
            election.resign("for the test", now_ns)
            now_ns += LEASE

    def test_the_time_in_which_the_store_was_away_shows_no_patience(self) -> None:
        election = candidate()
        election.heard(3, 0)
        assert election.ask(0) is Ask.LOOK
        told(election, FREE, 0)
        election.away(election.term, MS)
        now_ns = LEASES_OF_PATIENCE * LEASE
        election.heard(3, now_ns)
        assert election.ask(now_ns) is Ask.LOOK
        told(election, FREE, now_ns)
        election.heard(3, now_ns + 2 * LEASE)
        assert election.ask(now_ns + 2 * LEASE) is Ask.LOOK


class TestTheLease:
    """It counts from when it was asked for, and ends sharp."""

    def test_a_leader_leads_until_just_before_its_end(self) -> None:
        election = leader()
        assert election.leads(LEASE - 1) and not election.leads(LEASE)

    def test_a_renewal_counts_from_when_it_was_asked_for(self) -> None:
        election = leader()
        assert election.ask(LEASE // 4) is Ask.RENEW
        told(election, Answer(True, 5, "a"), LEASE // 2)
        assert election.until_ns() == LEASE // 4 + LEASE

    def test_a_renewal_in_another_epoch_is_none(self) -> None:
        election = leader(5)
        assert election.ask(LEASE // 4) is Ask.RENEW
        told(election, Answer(True, 6, "a"), LEASE // 4)
        assert not election.epoch and "leads in epoch 6" in election.why

    def test_a_lease_that_is_heard_of_when_it_is_over_does_not_count(self) -> None:
        election = candidate()
        assert election.ask(0) is Ask.ACQUIRE
        told(election, Answer(True, 5, "a"), LEASE)
        assert not election.epoch and "ran out" in election.why

    def test_a_lease_of_the_epoch_before_the_highest_does_not_count(self) -> None:
        election = candidate()
        assert election.ask(0) is Ask.ACQUIRE
        election.heard(9, MS)
        told(election, Answer(True, 8, "a"), 2 * MS)
        assert not election.epoch

    def test_a_leader_whose_lease_ran_out_stands_down_after_so_many_leases_of_silence(self) -> None:
        election, end_ns = leader(), (1 + LEASES_OF_SILENCE) * LEASE
        election.tick(end_ns - 1)
        assert election.epoch
        election.tick(end_ns)
        assert not election.epoch and "ran out" in election.why


class TestLateAnswers:
    """An answer to a question of an earlier term counts for nothing."""

    def test_after_standing_down(self) -> None:
        election = leader(5)
        assert election.ask(LEASE // 4) is Ask.RENEW
        term = election.term
        election.heard(6, LEASE // 4)
        assert election.ask(LEASE) is Ask.ACQUIRE and election.term != term
        election.answered(Answer(True, 7, "a"), term, LEASE)
        assert not election.epoch

    def test_after_the_store_was_away(self) -> None:
        election = candidate()
        assert election.ask(0) is Ask.ACQUIRE
        term = election.term
        election.away(term, MS)
        assert election.ask(LEASE // 2) is Ask.LOOK
        election.answered(Answer(True, 7, "a"), term, LEASE // 2)
        assert not election.epoch

    def test_after_a_question_that_nobody_answered_for_a_lease(self) -> None:
        election = candidate()
        assert election.ask(0) is Ask.ACQUIRE
        term = election.term
        assert election.ask(LEASE - 1) is None and election.ask(LEASE) is Ask.ACQUIRE
        election.answered(Answer(True, 7, "a"), term, LEASE)
        assert not election.epoch


@pytest.mark.parametrize(("away_ns", "ask"), [(LEASE - 1, Ask.ACQUIRE), (LEASE, Ask.LOOK)])
def test_a_candidate_that_was_cut_off_for_a_whole_lease_waits_as_long_again(away_ns: int, ask: Ask) -> None:
    election = candidate()
    election.ask(0)
    election.away(election.term, 0)
    assert election.ask(away_ns - LEASE // 4) is Ask.LOOK
    told(election, FREE, away_ns)
    assert election.ask(away_ns + LEASE // 2) is ask
    if ask is Ask.LOOK:
        told(election, FREE, away_ns + LEASE // 2)
        assert election.ask(away_ns + LEASE) is Ask.ACQUIRE
