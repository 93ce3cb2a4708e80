"""The agent's state machine."""

import pytest

from agents.membership.lifecycle import Event, InvalidTransition, Lifecycle, State


def after(*events: Event) -> State:
    lifecycle = Lifecycle()
    for event in events:
        lifecycle.on(event)
    return lifecycle.state


def test_a_heartbeat_then_a_welcome_make_a_member() -> None:
    assert after(Event.HEARTBEAT, Event.WELCOME) is State.MEMBER


def test_silence_opens_and_the_same_leader_heard_again_resumes() -> None:
    assert after(Event.HEARTBEAT, Event.WELCOME, Event.SILENCE) is State.FAIL_OPEN
    assert after(Event.HEARTBEAT, Event.WELCOME, Event.SILENCE, Event.HEARTBEAT) is State.MEMBER


def test_a_new_leader_must_welcome_us_again() -> None:
    assert after(Event.HEARTBEAT, Event.WELCOME, Event.NEW_LEADER) is State.REGISTERING


def test_nothing_happens_to_a_stopped_agent() -> None:
    for event in Event:
        lifecycle = Lifecycle()
        lifecycle.on(Event.STOP)
        with pytest.raises(InvalidTransition):
            lifecycle.on(event)


def test_a_welcome_without_a_registration_is_refused() -> None:
    with pytest.raises(InvalidTransition):
        after(Event.WELCOME)
