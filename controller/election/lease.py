"""Takes, renews and gives back the leader's lease in the store, each by one script. An edge: Redis.

No two controllers are given the same epoch, not even by two stores that have lost touch: an epoch, divided by `HOLDERS`, leaves
the number that belongs to its holder's name. Epochs above `LAST_EPOCH` do not exist: such a number in the store, or heard, is
ignored.

`baton:leader` is a hash {name, token, epoch} that expires with the lease; `baton:epoch` is the last epoch given out. A token
stands for one term of one process, so no process takes an earlier lease for its own. The rules are in
`controller.election.rules`.
"""

from __future__ import annotations

import json
import time
import zlib
from typing import Any

from redis.exceptions import RedisError, TimeoutError

from controller.election.rules import Answer
from controller.store.client import connect
from controller.store.layout import PREFIX
from protocol.auth import LAST_EPOCH
from protocol.units import MILLISECOND_NS

REPLICATION_MS = 50
HOLDERS = 1024
"""So many remainders belong to names; two names have the same one once in so many pairs (then see `Leadership.twin`)."""

_LOOK = """
local found = redis.call('HMGET', KEYS[1], 'token', 'epoch', 'name')
if not found[1] then return {0, 0, '', 0} end
return {0, tonumber(found[2]), found[3], math.max(0, redis.call('PTTL', KEYS[1]))}
"""
# Numbers are below 2^53, so Lua's doubles are exact.
_ACQUIRE = """
local found = redis.call('HMGET', KEYS[1], 'token', 'epoch', 'name')
if found[1] and found[1] ~= ARGV[1] then
  return {0, tonumber(found[2]), found[3], math.max(0, redis.call('PTTL', KEYS[1]))}
end
local stored, heard, last = tonumber(redis.call('GET', KEYS[2])) or 0, tonumber(ARGV[5]), tonumber(ARGV[8])
local epoch = math.max((stored < last and stored or 0) + 1, tonumber(ARGV[4]), (heard < last and heard or 0) + 1)
epoch = epoch + (tonumber(ARGV[6]) - epoch) % tonumber(ARGV[7])
if epoch > last then return redis.error_reply('no epochs are left: set the clock') end
redis.call('SET', KEYS[2], string.format('%.0f', epoch))
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'name', ARGV[2], 'epoch', string.format('%.0f', epoch))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PUBLISH', KEYS[3], 'leader')
return {1, epoch, ARGV[2], 0}
"""
# A lease that is gone (the store lost its data, or was away for too long) goes back to the last leader, and to no other.
_RENEW = """
local found = redis.call('HMGET', KEYS[1], 'token', 'epoch', 'name')
if found[1] and found[1] ~= ARGV[1] then
  return {0, tonumber(found[2]), found[3], math.max(0, redis.call('PTTL', KEYS[1]))}
end
local epoch, mine = tonumber(redis.call('GET', KEYS[2])) or 0, tonumber(ARGV[4])
if epoch > mine and epoch <= tonumber(ARGV[5]) then return {0, epoch, '', 0} end
if not found[1] then
  redis.call('SET', KEYS[2], string.format('%.0f', mine))
  redis.call('HSET', KEYS[1], 'token', ARGV[1], 'name', ARGV[2], 'epoch', string.format('%.0f', mine))
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {1, mine, ARGV[2], 0}
"""
_RELEASE = """
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('PUBLISH', KEYS[2], 'leader')
return redis.call('DEL', KEYS[1])
"""


_NODES = """
local found = {}
for _, number in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local text = redis.call('HGET', ARGV[1] .. number, 'json')
  if text then
    found[#found + 1] = number .. ' ' .. (string.match(text, '"mac": *"([^"]*)"') or '?')
  end
end
return table.concat(found, '\\n')
"""
"""The node ids of thousands of members, without their documents: to read all these takes longer than the elector waits for the
store, and then the lease is asked for again. In a text a quotation mark has a backslash before it: what is found is a field."""


class LeaseAway(Exception):
    """The store does not answer at the moment; the text says why."""


class NotConfirmed(LeaseAway):
    """The store answers, and too few of its replicas have the lease; the text says how many."""


class LeaseStore:
    """One controller's access to the lease. No method waits longer than about half a lease."""

    def __init__(self, url: str, name: str, lease_ns: int, *, replicas: int = 0) -> None:
        """`replicas`: how many must have an epoch before it counts; one in any case where one is connected.

        Raises ValueError: not a URL of a store."""
        self._name = name
        self._replicas = replicas
        self._lease_ms = lease_ns // MILLISECOND_NS
        self._client: Any = connect(url, timeout_s=lease_ns / 5e9)

    def look(self) -> Answer:
        """The holder of the lease. This and the other methods raise LeaseAway."""
        return self._answer(_LOOK, ("leader",))

    def acquire(self, token: str, highest_epoch: int) -> Answer:
        """Takes the lease if it is free. Its epoch is above all given out and `highest_epoch`, and at least the time in s; no
        other holder is given it."""
        remainder = zlib.crc32(self._name.encode()) % HOLDERS
        arguments = (token, self._name, self._lease_ms, int(time.time()), highest_epoch, remainder, HOLDERS, LAST_EPOCH)
        answer = self._answer(_ACQUIRE, ("leader", "epoch", "changed:leader"), *arguments)
        if answer.held and (missing := self._unconfirmed()):
            self.release(token)
            raise NotConfirmed(f"{missing}, and a failover of the store would lose it")
        return answer

    def legacy(self) -> dict[str, Any]:
        """What the last leader left and has not expired: {"contended": [[from, to]], "nodes": {MAC address: node}}."""
        try:
            status = self._client.hget(PREFIX + "status", "json")
            lines = str(self._client.eval(_NODES, 1, PREFIX + "members", PREFIX + "member:")).splitlines()
        except RedisError:
            return {}
        try:
            links = [[str(one), str(other)] for one, other in json.loads(status)["contended"]] if status else []
            rows = (line.split(" ", 1) for line in lines)
            nodes = {bytes.fromhex(mac.replace(":", "")).hex(":"): int(number) for number, mac in rows}
        except (AttributeError, KeyError, TypeError, ValueError):
            return {}  # its successor finds out anew
        return {"contended": links, "nodes": nodes}

    def renew(self, token: str, epoch: int) -> Answer:
        """Prolongs the lease; takes it back if the store lost it and no other controller has led since."""
        return self._answer(_RENEW, ("leader", "epoch"), token, self._name, self._lease_ms, epoch, LAST_EPOCH)

    def release(self, token: str) -> None:
        """Gives the lease back, if it is ours."""
        self._run(_RELEASE, ("leader", "changed:leader"), token)

    def _answer(self, script: str, keys: tuple[str, ...], *arguments: object) -> Answer:
        found = self._run(script, keys, *arguments)
        try:
            held, epoch, holder, left_ms = found
            return Answer(bool(held), int(epoch), str(holder), int(left_ms) * MILLISECOND_NS)
        except (TypeError, ValueError):
            raise LeaseAway("its lease is not one: delete the key baton:leader") from None

    def _run(self, script: str, keys: tuple[str, ...], *arguments: object) -> Any:  # noqa: ANN401 -- of Redis
        names = [PREFIX + key for key in keys]
        for attempt in (1, 2):  # only using a connection shows that Redis has closed it
            try:
                return self._client.eval(script, len(names), *names, *arguments)
            except RedisError as error:
                self._client.connection_pool.disconnect()
                if attempt == 2 or isinstance(error, TimeoutError):  # a second try would take as long
                    raise LeaseAway(f"{type(error).__name__}: {error}") from None
        raise AssertionError("not reached")

    def _unconfirmed(self) -> str:
        """Why the epoch just given out does not count yet: too few replicas have it; empty if enough have."""
        try:
            connected = int(self._client.info("replication").get("connected_slaves", 0))
            wanted = max(self._replicas, min(connected, 1))
            if not wanted:
                return ""
            confirmed = 0
            if connected >= wanted:
                with self._client.pipeline(transaction=False) as pipe:
                    pipe.hset(PREFIX + "leader", "replicated", 1)  # WAIT counts only what its own connection has written
                    pipe.wait(wanted, REPLICATION_MS)
                    confirmed = int(pipe.execute()[1])
        except RedisError as error:
            raise LeaseAway(f"{type(error).__name__}: {error}") from None
        if confirmed >= wanted:
            return ""
        told = f"of {connected} connected {confirmed} did so"
        return f"the lease must be confirmed by {wanted} of the store's replicas, and {told}"
