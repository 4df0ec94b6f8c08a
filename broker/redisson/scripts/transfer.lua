-- Moves due values to the target list, in the order in which they are due.
--
-- ARGV: how many at most; members to index at most; 1 to scan for the first one even without an index;
--       how many of the first due ones are known to be poison.
-- Returns: moved, due and still there, next due or -1, server ms, 1 when another call is needed at once,
--          length of the list, poison met, bytes moved, due ms of the first one moved or -1.
local complaint = wrong_type({'list', 'zset', 'list', 'zset', 'zset'})
if complaint then return complaint end
local limit, budget, scan = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local _, now = clock()
local size = redis.call('LLEN', WAITING)

local members, ids, values, poison, bytes = {}, {}, {}, 0, 0
local offset, step, exhausted = tonumber(ARGV[4]), 4, false
while #members < limit and bytes < CHUNK_BYTES and poison < 2000 do
  local count = math.min(step, limit - #members)
  local part = redis.call('ZRANGEBYSCORE', TIMEOUT, 0, now, 'LIMIT', offset, count)
  for _, member in ipairs(part) do
    local at, packing = value_at(member)
    if at then
      local place = #members + 1
      members[place] = member
      ids[place] = id_of(member, packing)
      values[place] = string.sub(member, at)
      bytes = bytes + #member
    else
      poison = poison + 1
    end
  end
  offset, step = offset + #part, step * 4
  if #part < count then
    exhausted = true
    break
  end
end

local places, resolved, complete = {}, #members, false
if #members > 0 then
  if size < SMALL then
    tend(0)
    for position = 1, #members do places[position] = 'scan' end
  else
    if redis.call('EXISTS', INDEX) == 0 then places, resolved = places_in_front(members) else resolved = 0 end
    if resolved < #members then
      complete = tend(budget)
      places, resolved = places_of(members, ids, complete)
      if resolved == 0 and scan then places, resolved = {'scan'}, 1 end
    end
  end
end

local first_due = '-1'
if resolved > 0 then
  first_due = redis.call('ZSCORE', TIMEOUT, members[1])
  local moved = {unpack(members, 1, resolved)}
  forget(moved, ids)
  redis.call('RPUSH', TARGET, unpack(values, 1, resolved))
  take_out(members, places, resolved)
  redis.call('ZREM', TIMEOUT, unpack(moved))
end

local due = redis.call('ZCOUNT', TIMEOUT, 0, now)
local head = redis.call('ZRANGEBYSCORE', TIMEOUT, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
local again = (exhausted and resolved == #members) and 0 or 1
return {resolved, due, head[2] or '-1', now, again, size - resolved, poison, bytes, first_due}
