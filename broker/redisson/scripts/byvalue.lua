-- Finds a waiting member by its value: the first offered one. With 'remove' it is taken out of both structures.
--
-- ARGV: 'find' or 'remove'; the value; steps for the indexes; seconds that the index of values is kept unused; the
--       member, where the caller has found it without an index, or ''.
-- Returns: 1 found, 0 not there, -1 call again (the index is being built); and the member's due ms or -1.
local complaint = wrong_type({'list', 'zset', 'list', 'zset', 'zset'})
if complaint then return complaint end
local value, budget, keep, given = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
-- After every digest, also one that begins with 255 itself.
local UPTO = string.rep('\255', 9)

local function holds(member)
  if not member then return false end
  local at = value_at(member)
  return at ~= nil and #member - at + 1 == #value and string.sub(member, at) == value
end

local function finish(member, place)
  local due = redis.call('ZSCORE', TIMEOUT, member) or '-1'
  if ARGV[1] == 'remove' then
    local back = place and redis.call('LLEN', WAITING) - place < place
    forget({member})
    if redis.call('LREM', WAITING, back and -1 or 1, member) == 0 then return {0, due} end
    redis.call('ZREM', TIMEOUT, member)
  end
  return {1, due}
end

local function scanned()
  local first = 0
  repeat
    local members = members_from(first, 1000)
    for position, member in ipairs(members) do
      if holds(member) then return finish(member, first + position - 1) end
    end
    first = first + #members
  until #members == 0
  return {0, '-1'}
end

-- Adds the next members, at most `most`, to the index of values; true when it goes as far as the index of places.
local function tend_values(known, most)
  local upto = redis.call('ZRANGEBYLEX', VALUES, '[' .. UPTO, '+', 'LIMIT', 0, 1)[1]
  local done = 0
  if upto then
    local high, low = struct.unpack('>I4I4', upto, #UPTO + 1)
    done = known - redis.call('ZCOUNT', INDEX, whole(high * 4294967296 + low + 1), '+inf')
  end
  if done >= known then return true end
  local members = members_from(done, most)
  local entries = redis.call('ZRANGE', INDEX, done, done + #members - 1, 'WITHSCORES')
  local arguments, number = {}, 0
  for position, member in ipairs(members) do
    number = tonumber(entries[2 * position])
    local at = value_at(member)
    if at then
      arguments[#arguments + 1] = 0
      arguments[#arguments + 1] = digest_of(string.sub(member, at)) .. numbered(number)
    end
  end
  arguments[#arguments + 1] = 0
  arguments[#arguments + 1] = UPTO .. numbered(number)
  if upto then redis.call('ZREM', VALUES, upto) end
  redis.call('ZADD', VALUES, unpack(arguments))
  return done + #members >= known
end

if given ~= '' then return finish(given) end
local size = redis.call('LLEN', WAITING)
if size < SMALL then
  tend(0)
  return scanned()
end
if redis.call('ZCARD', VALUES) > 2 * size + 1000 then redis.call('UNLINK', VALUES) end
local complete = tend(budget)
-- The budget is for the whole call. A value costs as much as two places: its digest is made first.
if complete then complete = steps < budget and tend_values(size, math.ceil((budget - steps) / 2)) end
redis.call('EXPIRE', VALUES, keep)
if not complete then
  return {-1, '-1'}
end
local digest = digest_of(value)
local candidates = redis.call('ZRANGEBYLEX', VALUES, '[' .. digest, '[' .. digest .. string.rep('\255', 8), 'LIMIT', 0, 64)
for _, candidate in ipairs(candidates) do
  local high, low = struct.unpack('>I4I4', candidate, 9)
  local number = high * 4294967296 + low
  local id = redis.call('ZRANGEBYSCORE', INDEX, whole(number), '(' .. whole(number + 1))[1]
  local place = id and redis.call('ZRANK', INDEX, id)
  local member = place and redis.call('LINDEX', WAITING, place)
  if holds(member) then return finish(member, place) end
  redis.call('ZREM', VALUES, candidate)
end
return #candidates == 64 and {-1, '-1'} or {0, '-1'}
