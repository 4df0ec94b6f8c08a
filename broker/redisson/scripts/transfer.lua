-- Moves due values to the target list, in the order in which they are due.
--
-- ARGV: how many at most; members to index at most; 1 to scan for the first one even without an index;
--       how many of the first due ones are known to be poison.
-- Returns: moved, due and still there, next due or -1, server ms, 1 when another call is needed at once,
--          length of the list, poison met, bytes moved, due ms of the first one moved or -1.
local complaint = wrong_type({'list', 'zset', 'list', 'zset', 'zset'})
if complaint then return complaint end
local _, now = clock()
local size = redis.call('LLEN', WAITING)
local batch = due_batch(now, tonumber(ARGV[1]), tonumber(ARGV[4]))
local places, resolved = resolve(batch, tonumber(ARGV[2]), ARGV[3] == '1')
local first_due = '-1'
if resolved > 0 then
  first_due = redis.call('ZSCORE', TIMEOUT, batch.members[1])
  redis.call('RPUSH', TARGET, unpack(batch.values, 1, resolved))
  leave(batch, places, resolved)
end
local head = redis.call('ZRANGEBYSCORE', TIMEOUT, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {
  resolved, redis.call('ZCOUNT', TIMEOUT, 0, now), head[2] or '-1', now,
  batch.exhausted and resolved == #batch.members and 0 or 1,
  size - resolved, batch.poison, batch.bytes, first_due,
}
