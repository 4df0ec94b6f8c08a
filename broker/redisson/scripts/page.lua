-- Waiting members by due time. Reads only.
--
-- ARGV: lowest and highest score; how many to leave out; how many at most; bytes of each that are shown; 'all', or what
-- of the page is given: 'poison', or a packing ('old', 'new'); which set: 'timeout' or 'aside'.
-- Returns: server ms; how many were looked at; the last score and how many of them had it; then for each: score, size, id, first byte of the value or 0, packing,
-- first bytes of the value (of poison: of the member).
local _, now = clock()
local complaint = wrong_type({'list', 'zset', 'list', 'zset', 'zset', 'zset'})
if complaint then return complaint end
local set = ARGV[7] == 'aside' and KEYS[6] or KEYS[2]
local left_out, limit, shown = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local answer, seen, step, bytes = {whole(now), 0, '', 0}, 0, 4, 0
while seen < limit and bytes < 2000000 do
  local count = math.min(step, limit - seen)
  local part = redis.call('ZRANGEBYSCORE', set, ARGV[1], ARGV[2], 'WITHSCORES', 'LIMIT', left_out + seen, count)
  for position = 1, #part, 2 do
    local member = part[position]
    local at, packing = value_at(member)
    bytes = bytes + #member
    answer[4] = part[position + 1] == answer[3] and answer[4] + 1 or 1
    answer[3] = part[position + 1]
    if ARGV[6] == 'all' or (packing or 'poison') == ARGV[6] then
      local first = at or 1
      for _, field in ipairs({
        part[position + 1], #member, id_of(member), at or 0, packing or '', string.sub(member, first, first + shown - 1),
      }) do answer[#answer + 1] = field end
    end
  end
  seen, step = seen + #part / 2, step * 4
  if #part < 2 * count then break end
end
answer[2] = seen
return answer
