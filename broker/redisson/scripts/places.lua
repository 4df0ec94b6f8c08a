-- Takes many members out of the waiting list in one pass over it.
--
-- Each is replaced by a marker at its place, then one LREM takes all markers: both in the same script, so nobody ever
-- sees a marker.

-- Above this size the way to a place costs more than all else; one in SAMPLE is looked at then, if the index is whole.
local LOOK_AT_ALL = 200000
local SAMPLE = 8

-- The places of members: a number, false (it is not in the list), or 'scan'; nil when the index cannot tell yet.
local function places_of(members, ids, complete)
  local places = {}
  local sampled = complete and redis.call('LLEN', WAITING) > LOOK_AT_ALL and not has_doubles()
  for position, member in ipairs(members) do
    local rank = redis.call('ZRANK', INDEX, ids[position])
    local believed = sampled and position % SAMPLE ~= 1
    if rank and (believed or redis.call('LINDEX', WAITING, rank) == member) then
      places[position] = rank
    elseif complete then
      places[position] = rank and 'scan' or false
    else
      return places, position - 1
    end
  end
  return places, #members
end

-- The same for members that are all among the first of the list, as when all delays are equal: needs no index.
local function places_in_front(members)
  local seen, places = {}, {}
  for position, member in ipairs(members_from(0, 2 * #members)) do seen[member] = seen[member] or position - 1 end
  for position, member in ipairs(members) do
    places[position] = seen[member]
    if not places[position] then return places, position - 1 end
  end
  return places, #members
end

local function take_out(members, places, count)
  local size, low, high, marked = redis.call('LLEN', WAITING), math.huge, -1, 0
  for position = 1, count do
    local place = places[position]
    if type(place) == 'number' then
      redis.call('LSET', WAITING, place, MARKER)
      low, high, marked = math.min(low, place), math.max(high, place), marked + 1
    end
  end
  if marked > 0 then
    redis.call('LREM', WAITING, size - low < high and -marked or marked, MARKER)
  end
  for position = 1, count do
    if places[position] == 'scan' then redis.call('LREM', WAITING, 1, members[position]) end
  end
end
