-- Puts one damaged member right, if it still is damaged. One pass over the list.
--
-- ARGV: which kind of damage ('list': in the list only, 'set': in the set only); what to do; id; size; score or '';
--       place in the list.
-- In the list only: 'fire' (due now) or 'drop'. In the set only: 'list' (put it at the end of the list) or 'drop'.
-- Returns: 1 done, 0 it is whole by now or gone.
local complaint = wrong_type({'list', 'zset', 'list', 'zset', 'zset'})
if complaint then return complaint end
local kind, action, id, size, score = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local CHANNEL = KEYS[6]

local function is_meant(member)
  return member and #member == size and id_of(member) == id
end

if kind == 'set' then
  local offset = 0
  repeat
    local part = redis.call('ZRANGEBYSCORE', TIMEOUT, score, score, 'LIMIT', offset, 100)
    for _, member in ipairs(part) do
      if is_meant(member) then
        if redis.call('LPOS', WAITING, member) then return 0 end
        if action == 'drop' then redis.call('ZREM', TIMEOUT, member) else redis.call('RPUSH', WAITING, member) end
        return 1
      end
    end
    offset = offset + #part
  until #part == 0
  return 0
end

local place = redis.call('ZRANK', INDEX, id)
local member = place and redis.call('LINDEX', WAITING, place)
if not is_meant(member) then
  local first, found = tonumber(ARGV[6]), nil
  -- It stands a little before the place where it was seen: others left meanwhile.
  for _, each in ipairs(members_from(math.max(0, first - 1000), 1001)) do
    if is_meant(each) then found = each end
  end
  member = found
end
if not member or redis.call('ZSCORE', TIMEOUT, member) then return 0 end
if action == 'drop' then
  forget({member})
  redis.call('LREM', WAITING, 1, member)
else
  local _, now = clock()
  redis.call('ZADD', TIMEOUT, whole(now), member)
  if redis.call('ZRANGE', TIMEOUT, 0, 0)[1] == member then redis.call('PUBLISH', CHANNEL, whole(now)) end
end
return 1
