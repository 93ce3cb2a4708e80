"""What is told if Baton does not come up over an emulated fabric."""

from __future__ import annotations

import pytest

from emulation.stack import stack
from emulation.stack.star import star
from tests import needs

pytestmark = [needs.REDIS, pytest.mark.usefixtures("in_a_box")]


def test_a_start_that_takes_too_long_is_an_error_with_the_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "START_S", 0.01)
    with pytest.raises(stack.StackError, match=r"^baton up did not end within 0.01 s"), star(agents=False):
        pytest.fail("Baton can't be up within 10 ms")
