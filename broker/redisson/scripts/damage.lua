-- Members that are in one structure only. Reads only, but for the index that it needs.
--
-- ARGV: 'list' (looks at a part of the list) or 'set' (at a part of the set); first place; how many; bytes shown.
-- Returns: how many were looked at, or -1: call again, the index is being built; then for each: the score or '', size,
-- id, first bytes, place.
local complaint = wrong_type({'list', 'zset', 'list', 'zset', 'zset'})
if complaint then return complaint end
local first, limit, shown = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local answer = {0}

local function report(member, score, place)
  for _, field in ipairs({score, #member, id_of(member), string.sub(member, 1, shown), place}) do
    answer[#answer + 1] = field
  end
end

if ARGV[1] == 'list' then
  local members = members_from(first, limit)
  answer[1] = #members
  for position, member in ipairs(members) do
    if not redis.call('ZSCORE', TIMEOUT, member) then report(member, '', first + position - 1) end
  end
  return answer
end

local is_small = redis.call('LLEN', WAITING) < SMALL
local listed = {}
if is_small then
  for _, member in ipairs(redis.call('LRANGE', WAITING, 0, -1)) do listed[member] = true end
elseif not tend(limit) then
  return {-1}
end
local part = redis.call('ZRANGE', TIMEOUT, first, first + limit - 1, 'WITHSCORES')
answer[1] = #part / 2
for position = 1, #part, 2 do
  local member = part[position]
  if is_small and not listed[member] or not is_small and not redis.call('ZSCORE', INDEX, id_of(member)) then
    report(member, part[position + 1], 0)
  end
end
return answer
