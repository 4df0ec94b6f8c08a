-- Takes many members out of the waiting list in one pass over it.
--
-- Each is replaced by a marker at its place, then one LREM takes all markers: both in the same script, so nobody ever
-- sees a marker.

-- In a longer list one pass is most of the cost, and the way to a place costs more than all else that is done for a
-- member: one in SAMPLE is looked at then, if the index is whole, and a batch has LONG_BATCH members.
local LONG = 200000
local LONG_BATCH = 128
local SAMPLE = 8
-- Members that all scans of one script may pass, beside the one pass that takes the markers.
local SCANNED = 100000

-- The places of members: a number, or 'scan' where the index has none; and how many could be told. A scan is a pass over
-- the list: there are few of them in one script, and in a long list one and nothing else.
local function places_of(members, ids, complete)
  local places, size = {}, redis.call('LLEN', WAITING)
  local sampled = complete and size > LONG and not has_doubles()
  local scans = math.floor(SCANNED / size)
  for position, member in ipairs(members) do
    local rank = redis.call('ZRANK', INDEX, ids[position])
    local believed = sampled and position % SAMPLE ~= 1
    if rank and (believed or redis.call('LINDEX', WAITING, rank) == member) then
      places[position] = rank
    elseif complete and scans > 0 then
      places[position], scans = 'scan', scans - 1
    elseif complete and position == 1 then
      return {'scan'}, 1
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

-- Removes the markers at these places (in rising order): the lower ones from the front and the upper ones from the
-- back, so that the widest span without any is not passed.
local function sweep(marked, size)
  local from_front, widest, last = 0, -1, -1
  for position = 1, #marked + 1 do
    local place = marked[position] or size
    if place - last > widest then from_front, widest = position - 1, place - last end
    last = place
  end
  if from_front > 0 then redis.call('LREM', WAITING, from_front, MARKER) end
  if from_front < #marked then redis.call('LREM', WAITING, from_front - #marked, MARKER) end
end

local function take_out(members, places, count)
  local size, marked = redis.call('LLEN', WAITING), {}
  for position = 1, count do
    if type(places[position]) == 'number' then marked[#marked + 1] = places[position] end
  end
  table.sort(marked)
  for _, place in ipairs(marked) do redis.call('LSET', WAITING, place, MARKER) end
  sweep(marked, size)
  for position = 1, count do
    if places[position] == 'scan' then redis.call('LREM', WAITING, 1, members[position]) end
  end
end
