-- Does something with one waiting member, which is given as a whole or found by its handle.
--
-- ARGV: action; member or ''; score, id and length of the handle; a number; what packing another queue is said to have.
-- Actions: 'remove', 'deliver' (now, to the target), 'reschedule' (due at the number), 'aside' (poison: to the set of
-- ours), 'back' (from there), 'move' (to the queue whose TIMEOUT, WAITING and CHANNEL are keys 8 to 10).
-- Returns: 1 done, 0 it is not waiting; and its due ms.
local complaint = wrong_type({'list', 'zset', 'list', 'zset', 'zset', 'zset'})
if complaint then return complaint end
local ASIDE, CHANNEL = KEYS[6], KEYS[7]
local action, member, score, id, size = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local number = ARGV[6]
local source = action == 'back' and ASIDE or TIMEOUT

local function is_meant(candidate)
  return candidate and #candidate == size and id_of(candidate) == id
end

local function by_handle()
  local place = redis.call('ZRANK', INDEX, id)
  local candidate = place and redis.call('LINDEX', WAITING, place)
  if is_meant(candidate) then return candidate end
  local offset, step = 0, 4
  repeat
    local part = redis.call('ZRANGEBYSCORE', source, score, score, 'LIMIT', offset, step)
    for _, each in ipairs(part) do
      if is_meant(each) then return each end
    end
    offset, step = offset + #part, math.min(step * 4, 1000)
  until #part == 0
  return nil
end

local function announce(timeout, channel, due)
  if redis.call('ZRANGE', timeout, 0, 0)[1] == member then redis.call('PUBLISH', channel, due) end
end

if member == '' then member = by_handle() end
local due = member and redis.call('ZSCORE', source, member)
if not due then return {0, '-1'} end

if action == 'back' then
  redis.call('ZREM', ASIDE, member)
  redis.call('ZADD', TIMEOUT, due, member)
  redis.call('RPUSH', WAITING, member)
  announce(TIMEOUT, CHANNEL, due)
  return {1, due}
end
if action == 'reschedule' then
  redis.call('ZADD', TIMEOUT, number, member)
  announce(TIMEOUT, CHANNEL, number)
  return {1, number}
end

local at, packing = value_at(member)
if not at and (action == 'deliver' or action == 'move') then
  return redis.error_reply('ESCAPEMENTPOISON')
end
if action == 'move' then
  local kinds = {'zset', 'list'}
  for position = 8, 9 do
    local found = redis.call('TYPE', KEYS[position]).ok
    if found ~= 'none' and found ~= kinds[position - 7] then
      return redis.error_reply('ESCAPEMENTTYPE ' .. position .. ' ' .. kinds[position - 7] .. ' ' .. found)
    end
  end
end
forget({member})
if action == 'deliver' then redis.call('RPUSH', TARGET, string.sub(member, at)) end
if action == 'aside' then redis.call('ZADD', ASIDE, due, member) end
redis.call('ZREM', TIMEOUT, member)
redis.call('LREM', WAITING, 1, member)
if action == 'move' then
  local wanted = ARGV[7] ~= 'auto' and ARGV[7] or packing_of(KEYS[9], KEYS[8]) or packing
  local value = string.sub(member, at)
  if packing ~= wanted then
    member = (wanted == 'new' and '\8' or '') .. id_of(member, packing) .. struct.pack('<I8', #value) .. value
  end
  redis.call('ZADD', KEYS[8], due, member)
  redis.call('RPUSH', KEYS[9], member)
  announce(KEYS[8], KEYS[10], due)
end
return {1, due}
