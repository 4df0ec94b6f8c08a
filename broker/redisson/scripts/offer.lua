-- Offers values: in the set, in the list, and published when one became the head.
--
-- ARGV: for each value: 'delay' or 'at', milliseconds, value; then the packing: 'auto', 'new', 'old'.
-- Returns: server ms, the packing, then for each: due ms and counter.
local complaint = wrong_type({'list', 'zset', 'list'})
if complaint then return complaint end
local TIMEOUT, WAITING, CHANNEL = KEYS[2], KEYS[3], KEYS[4]
local micros, now = clock()
-- The newest member tells what the clients of today write.
local packing = SAID ~= 'auto' and SAID or packing_of(WAITING, TIMEOUT) or 'new'
local answer, dues, counter = {whole(now), packing}, {}, micros
for position = 1, #ARGV - 3, 3 do
  local value = ARGV[position + 2]
  local due = tonumber(ARGV[position + 1])
  if ARGV[position] == 'delay' then due = now + due end
  local tail, member = struct.pack('<I8', #value) .. value, nil
  repeat
    -- With this random part nothing would look like one NUL byte in the old packing.
    if #value == 0 and counter % 256 == 1 then counter = counter + 1 end
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
