-- Offers values: in the set, in the list, and published when one became the head.
--
-- ARGV: packing ('auto', 'new', 'old'), then for each value: 'delay' or 'at', milliseconds, value.
-- Returns: server ms, the packing, then for each: due ms and counter.
local complaint = wrong_type({'list', 'zset', 'list'})
if complaint then return complaint end
local TIMEOUT, WAITING, CHANNEL = KEYS[2], KEYS[3], KEYS[4]
local micros, now = clock()
local packing = ARGV[1]
if packing == 'auto' then
  -- The newest member tells what the clients of today write.
  local last = redis.call('LINDEX', WAITING, -1) or redis.call('ZRANGE', TIMEOUT, 0, 0)[1]
  local _, found = value_at(last or '')
  packing = found or 'new'
end
local answer, dues, counter = {whole(now), packing}, {}, micros
for position = 2, #ARGV, 3 do
  local value = ARGV[position + 2]
  local due = tonumber(ARGV[position + 1])
  if ARGV[position] == 'delay' then due = now + due end
  local tail, member = struct.pack('<I8', #value) .. value, nil
  repeat
    member = struct.pack('>I4I4', math.floor(counter / 4294967296), counter % 4294967296) .. tail
    if packing == 'new' then member = '\8' .. member end
    counter = counter + 1
  until redis.call('ZADD', TIMEOUT, 'NX', whole(due), member) == 1
  redis.call('RPUSH', WAITING, member)
  dues[member] = due
  answer[#answer + 1] = whole(due)
  answer[#answer + 1] = whole(counter - 1)
end
local head = redis.call('ZRANGE', TIMEOUT, 0, 0)[1]
if dues[head] then redis.call('PUBLISH', CHANNEL, whole(dues[head])) end
return answer
