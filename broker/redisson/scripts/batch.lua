-- The members that come due next, and where each is in the waiting list.

-- Members due up to `upper`, without the first `offset` ones: at most `limit`, and few when they are large or the list
-- is long. Poison is counted and left out. `exhausted` says that there are no more.
local function due_batch(upper, limit, offset)
  if redis.call('LLEN', WAITING) > LONG then limit = math.min(limit, LONG_BATCH) end
  local batch = {members = {}, ids = {}, values = {}, packings = {}, poison = 0, bytes = 0, exhausted = false}
  local step = 4
  while #batch.members < limit and batch.bytes < CHUNK_BYTES and batch.poison < 2000 do
    local count = math.min(step, limit - #batch.members)
    local part = redis.call('ZRANGEBYSCORE', TIMEOUT, 0, upper, 'LIMIT', offset, count)
    for _, member in ipairs(part) do
      local at, packing = value_at(member)
      if at then
        local place = #batch.members + 1
        batch.members[place] = member
        batch.ids[place] = id_of(member, packing)
        batch.values[place] = string.sub(member, at)
        batch.packings[place] = packing
        batch.bytes = batch.bytes + #member
      else
        batch.poison = batch.poison + 1
      end
    end
    offset, step = offset + #part, step * 4
    if #part < count then
      batch.exhausted = true
      break
    end
  end
  return batch
end

-- The places of the first members of a batch, as far as they can be told within `budget`; and how many these are.
-- `scan` tells the first one's in any case.
local function resolve(batch, budget, scan)
  local count = #batch.members
  if count == 0 then return {}, 0 end
  local places, resolved = {}, 0
  if redis.call('LLEN', WAITING) < SMALL then
    tend(0)
    for position = 1, count do places[position] = 'scan' end
    return places, count
  end
  if redis.call('EXISTS', INDEX) == 0 then places, resolved = places_in_front(batch.members) end
  if resolved == count then return places, count end
  local complete = tend(budget)
  if steps > TENDED then
    places, resolved = {}, 0
  else
    places, resolved = places_of(batch.members, batch.ids, complete)
  end
  if resolved == 0 and scan then return {'scan'}, 1 end
  return places, resolved
end

-- Takes the first `resolved` members of a batch out of all structures. What they become comes from the caller, before.
local function leave(batch, places, resolved)
  local gone = {unpack(batch.members, 1, resolved)}
  forget(gone, batch.ids)
  take_out(batch.members, places, resolved)
  redis.call('ZREM', TIMEOUT, unpack(gone))
end
