"""The role that an application claims at switches, as leaders come and go."""

from __future__ import annotations

from controller.openflow.roles import Claim, Role, Roles


class TestRoles:
    """Master while its controller leads, slave while another does; by generations that only grow."""

    def test_without_an_election_switches_are_commanded_and_nothing_is_claimed(self) -> None:
        roles = Roles(None)
        assert roles.acts and not roles.leader("a", 5) and roles.due(1) is None

    def test_while_nobody_leads_a_controller_acts_and_a_standby_does_not(self) -> None:
        assert Roles("a").acts and not Roles("b", standby=True).acts

    def test_the_leader_is_master_under_its_epoch(self) -> None:
        roles = Roles("a")
        assert roles.leader("a", 7) and roles.acts
        assert roles.due(1) == Claim(Role.MASTER, 7)
        assert roles.due(1) is None  # asked
        assert roles.due(2) == Claim(Role.MASTER, 7)

    def test_another_leader_makes_it_a_slave_until_it_leads_again(self) -> None:
        roles = Roles("a")
        roles.leader("a", 7)
        assert roles.leader("b", 8) and not roles.acts and roles.due(1) == Claim(Role.SLAVE, 8)
        assert roles.leader("a", 9) and roles.acts and roles.due(1) == Claim(Role.MASTER, 9)

    def test_old_news_change_nothing(self) -> None:
        roles = Roles("a")
        roles.leader("b", 8)
        assert not roles.leader("a", 7) and not roles.leader("b", 8) and not roles.acts

    def test_a_switch_that_comes_back_is_asked_again(self) -> None:
        roles = Roles("a")
        roles.leader("a", 7)
        roles.due(1)
        roles.replied(1, Claim(Role.MASTER, 7))
        assert roles.confirmed == {1: Claim(Role.MASTER, 7)}
        roles.forget(1)
        assert roles.confirmed == {} and roles.due(1) == Claim(Role.MASTER, 7)

    def test_a_refused_claim_is_not_confirmed(self) -> None:
        roles = Roles("a")
        roles.leader("a", 7)
        roles.replied(1, Claim(Role.MASTER, 7))
        roles.refused(1)
        assert roles.confirmed == {}
