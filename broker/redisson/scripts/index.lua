-- Where a member is in the waiting list, found in O(log n) by an index of our own that Redisson ignores.
--
--   INDEX   zset: id -> number, rising in the order of offers; the rank of an id is its place in the list
--   VALUES  zset, score 0: digest of the value (8 bytes) .. number (8 bytes); after all of them: how far it goes
--
-- Redisson only appends to the list and removes from it. So the indexed members are the first part of the list, in the
-- same order, among entries that Java has removed since. When the last entry is where its rank says, there are no such
-- entries.
local TARGET, TIMEOUT, WAITING, INDEX, VALUES = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
-- In a shorter list a scan by value is as quick as the index.
local SMALL = 1000
-- So many of the first members are looked through without an index.
local FRONT = 128
-- Shorter than any member that has a packing.
local MARKER = '\0escapement\0'
local CHUNK_BYTES = 1000000
-- Steps of one script's work on the index: an entry added or removed is one, finding a difference is FINDING. A script
-- that took more than TENDED of them makes no pass over the list as well.
local steps = 0
local FINDING = 40
local TENDED = 150

local function drop_index()
  redis.call('UNLINK', INDEX, VALUES)
end

-- Members of the list from `first` on: at most `count`, and few when they are large.
local function members_from(first, count)
  local members, bytes, step = {}, 0, 4
  while #members < count and bytes < CHUNK_BYTES do
    local from = first + #members
    local part = redis.call('LRANGE', WAITING, from, from + math.min(step, count - #members) - 1)
    if #part == 0 then break end
    for _, member in ipairs(part) do
      members[#members + 1] = member
      bytes = bytes + #member
    end
    step = step * 4
  end
  return members
end

local function entry_at(rank)
  return redis.call('ZRANGE', INDEX, rank, rank, 'WITHSCORES')
end

-- Whether the list has at this place what the index has at this rank. An entry made for a doubled id is longer.
local function agrees(rank)
  local member = redis.call('LINDEX', WAITING, rank)
  if not member then return false end
  return string.sub(entry_at(rank)[1] or '', 1, 8) == string.sub(id_of(member), 1, 8)
end

-- Removes entries of members that are not in the list any more, from the first place where the two differ, for at most
-- `budget` steps.
local function heal(known, budget)
  local from, most = 0, math.max(budget, FINDING)
  while steps < most do
    steps = steps + FINDING
    local low, high = from, known - 1
    if high < 0 or agrees(high) then return known end
    while low < high do
      local middle = math.floor((low + high) / 2)
      if agrees(middle) then low = middle + 1 else high = middle end
    end
    local member = redis.call('LINDEX', WAITING, low)
    local rank = member and redis.call('ZRANK', INDEX, id_of(member))
    if rank and rank < low or not rank and low == 0 then
      drop_index()
      return 0
    end
    local last = rank and math.min(rank - 1, low + most - 1) or known - 1
    local first = rank and low or math.max(low, known - most)
    local removed = redis.call('ZREMRANGEBYRANK', INDEX, first, last)
    known, steps, from = known - removed, steps + removed, low
  end
  return known
end

-- Whether some id stands for two members.
local function has_doubles()
  local number = tonumber(entry_at(-1)[2] or 0)
  return number ~= math.floor(number)
end

-- Indexes the next members after the first `known`. Where an id is there already, the entry gets a longer one, and all
-- numbers from there on end in .5: while the last one does, no place is believed unseen.
local function extend(known, budget)
  -- The clock, so that a number is never used again: the index of values knows members by their numbers.
  local start = math.max(math.floor(tonumber(entry_at(-1)[2] or 0)) + 1, (clock()))
  if has_doubles() then start = start + 0.5 end
  local arguments, members = {}, members_from(known, budget)
  steps = steps + #members
  for position, member in ipairs(members) do
    arguments[2 * position - 1] = string.format('%.1f', start + position)
    arguments[2 * position] = id_of(member)
  end
  local added = 0
  for first = 1, #arguments, 4000 do
    local last = math.min(first + 3999, #arguments)
    added = added + redis.call('ZADD', INDEX, 'NX', unpack(arguments, first, last))
  end
  if added < #members then
    redis.call('ZREMRANGEBYSCORE', INDEX, '(' .. string.format('%.1f', start), '+inf')
    local number = start
    for _, member in ipairs(members) do
      local id = id_of(member)
      number = number + 1
      if redis.call('ZSCORE', INDEX, id) then
        number = math.floor(number) + 0.5
        id = id .. struct.pack('>I4', math.floor(number) % 4294967296)
      end
      redis.call('ZADD', INDEX, string.format('%.1f', number), id)
    end
  end
  return known + #members
end

-- Brings the index nearer to the list in about `budget` steps. True when every member has its right place.
local function tend(budget)
  local size = redis.call('LLEN', WAITING)
  local known = redis.call('ZCARD', INDEX)
  if size < SMALL then
    if known > 0 then drop_index() end
    return false
  end
  if known > 0 and not agrees(known - 1) then
    known = heal(known, budget)
    if known > 0 and not agrees(known - 1) then return false end
  end
  if known < size and steps < budget then known = extend(known, budget - steps) end
  return known == size
end

local function digest_of(value)
  if #value > 131072 then
    value = #value .. ':' .. string.sub(value, 1, 65536) .. string.sub(value, -65536)
  end
  local hex = redis.sha1hex(value)
  return struct.pack('>I4I4', tonumber(string.sub(hex, 1, 8), 16), tonumber(string.sub(hex, 9, 16), 16))
end

local function numbered(number)
  number = math.floor(number)
  return struct.pack('>I4I4', math.floor(number / 4294967296), number % 4294967296)
end

-- Takes members out of both indexes; after that the list may lose them.
local function forget(members, known_ids)
  if redis.call('EXISTS', INDEX) == 0 then return end
  local ids, digests = {}, {}
  local doubled = has_doubles()
  local has_values = redis.call('EXISTS', VALUES) == 1
  for position, member in ipairs(members) do
    local id = known_ids and known_ids[position] or id_of(member)
    ids[position] = id
    if doubled then
      local rank = redis.call('ZRANK', INDEX, id)
      if rank and redis.call('LINDEX', WAITING, rank) ~= member then return drop_index() end
    end
    local at = has_values and value_at(member)
    local number = at and redis.call('ZSCORE', INDEX, id)
    if number then digests[#digests + 1] = digest_of(string.sub(member, at)) .. numbered(tonumber(number)) end
  end
  if #ids > 0 then redis.call('ZREM', INDEX, unpack(ids)) end
  if #digests > 0 then redis.call('ZREM', VALUES, unpack(digests)) end
end
