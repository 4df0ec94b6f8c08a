-- A member taken apart. Both packings are drawn in packing.py; nil is poison.
local function u64_is(text, at, wanted)
  return #text >= at + 7 and struct.unpack('<I8', text, at) == wanted
end

-- The first byte of the value (from 1) and the packing, or nil. `likely` decides for the one member that fits both.
local function value_at(member, likely)
  local size = #member
  local random = size > 0 and string.byte(member, 1) or 0
  if random == 8 and likely ~= 'old' and u64_is(member, 10, size - 17) then return 18, 'new' end
  local is_new = random > 0 and u64_is(member, 2 + random, size - random - 9)
  local is_old = u64_is(member, 9, size - 16)
  if is_new and not (is_old and likely == 'old') then return random + 10, 'new' end
  if is_old then return 17, 'old' end
  return nil
end

-- What the index knows a member by: the random part, or the first bytes of poison.
local function id_of(member, packing)
  if not packing then
    local _, found = value_at(member)
    packing = found
  end
  if packing == 'new' then return string.sub(member, 2, 9) end
  return string.sub(member, 1, 8)
end

local function whole(number)
  return string.format('%.0f', number)
end

-- The server's clock in microseconds and in whole milliseconds.
local function clock()
  local time = redis.call('TIME')
  local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
  return micros, math.floor(micros / 1000)
end

-- A complaint when a key that exists is not of the wanted type; asked before anything is written.
local function wrong_type(wanted)
  for position, kind in ipairs(wanted) do
    local found = KEYS[position] and redis.call('TYPE', KEYS[position]).ok or 'none'
    if found ~= 'none' and found ~= kind then
      return redis.error_reply('ESCAPEMENTTYPE ' .. position .. ' ' .. kind .. ' ' .. found)
    end
  end
  return nil
end
