-- A member taken apart. Both packings are drawn in codecs.py; nil is poison.
--
-- The last argument of every script that includes this: the packing that the queue is said to have, or 'auto'.
local SAID = ARGV[#ARGV]
local likely

local function u64_is(text, at, wanted)
  return #text >= at + 7 and struct.unpack('<I8', text, at) == wanted
end

local function is_new(member)
  return string.byte(member, 1) == 8 and u64_is(member, 10, #member - 17)
end

local function is_old(member)
  return u64_is(member, 9, #member - 16)
end

-- The packing of the newest member that fits only one, nil when none tells.
local function packing_of(waiting, timeout)
  local function told(member)
    if not member or is_new(member) == is_old(member) then return nil end
    return is_new(member) and 'new' or 'old'
  end
  for place = -1, -4, -1 do
    local found = told(redis.call('LINDEX', waiting, place))
    if found then return found end
  end
  for place = 0, 3 do
    local found = told(redis.call('LINDEX', waiting, place)) or told(redis.call('ZRANGE', timeout, place, place)[1])
    if found then return found end
  end
  return nil
end

-- Decides for a member that fits both.
local function likely_packing()
  if not likely then likely = SAID ~= 'auto' and SAID or packing_of(KEYS[3], KEYS[2]) or 'new' end
  return likely
end

-- The first byte of the value (from 1) and the packing, or nil.
local function value_at(member)
  local new = is_new(member)
  -- Only an empty value makes a new member that fits both.
  if new and #member > 17 then return 18, 'new' end
  local old = is_old(member)
  if old and not (new and likely_packing() == 'new') then return 17, 'old' end
  if new then return 18, 'new' end
  local random = string.byte(member, 1) or 0
  if random > 0 and u64_is(member, 2 + random, #member - random - 9) then return random + 10, 'new' end
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
