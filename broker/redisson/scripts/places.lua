-- Takes many members out of the waiting list in one pass over it.
--
-- Each is replaced by a marker at its place, then one LREM takes all markers: both in the same script, so nobody ever
-- sees a marker.

-- Above this size the way to a place costs more than all else; one in SAMPLE is looked at then, if the index is whole.
local LOOK_AT_ALL = 200000
local SAMPLE = 8
-- Members that all scans of one script may pass.
local SCANNED = 400000

-- The places of members: a number, or 'scan' where the index has none; and how many could be told. A scan is a pass over
-- the list, so there are few of them in one script.
local function places_of(members, ids, complete)
  local places, size = {}, redis.call('LLEN', WAITING)
  local sampled = complete and size > LOOK_AT_ALL and not has_doubles()
  local scans = math.floor(SCANNED / size)
  for position, member in ipairs(members) do
    local rank = redis.call('ZRANK', INDEX, ids[position])
    local believed = sampled and position % SAMPLE ~= 1
    if rank and (believed or redis.call('LINDEX', WAITING, rank) == member) then
      places[position] = rank
    elseif complete and (scans > 0 or position == 1) then
      places[position], scans = 'scan', scans - 1
    else
      return places, position - 1
    end
  end
  return places, #members
end

-- The same for members that are all among the first of the list, as when all delays are equal: needs no index.
local function places_in_front(members)
  local seen, places = {}, {}
  for position, member in ipairs(members_from(0, math.max(FRONT, 2 * #members))) do seen[member] = seen[member] or position - 1 end
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
