-- Takes members out of the queue into a set of ours, from which they are sent to a topic. For Java they have been
-- transferred; whoever sends them takes them out of our set afterwards, or finds them there after a crash.
--
-- Keys 6 to 8: our set, what is set aside, the mode.
-- ARGV: as for transfer; 'due' or 'all'; bytes of the largest value that can be sent; 1 to take over what is in the
--       target list; who asks; for how many ms nobody else may.
-- A member that fits both packings and is old is packed as a new one there: in our set nothing tells what it was.
-- Returns: as for transfer; then: taken over, set aside because too large, members in our set. Nothing when somebody
--          else sends.
local complaint = wrong_type({'list', 'zset', 'list', 'zset', 'zset', 'zset', 'zset', 'hash'})
if complaint then return complaint end
local SENDING, ASIDE, MODE = KEYS[6], KEYS[7], KEYS[8]
local limit, largest = tonumber(ARGV[1]), tonumber(ARGV[6])
local micros, now = clock()
local owner = redis.call('HMGET', MODE, 'owner', 'owned_until_ms')
if owner[1] and owner[1] ~= ARGV[8] and tonumber(owner[2]) > now then return {} end
redis.call('HSET', MODE, 'owner', ARGV[8], 'owned_until_ms', whole(now + tonumber(ARGV[9])))
local size = redis.call('LLEN', WAITING)
local room = math.max(0, limit - redis.call('ZCARD', SENDING))

local counter = micros
local function packed_anew(value)
  counter = counter + 1
  if #value == 0 and counter % 256 == 1 then counter = counter + 1 end
  return '\8' .. numbered(counter) .. struct.pack('<I8', #value) .. value
end

-- Values that a live RDelayedQueue of Java has moved to the target meanwhile: packed again, so that each is told apart.
local taken_over = 0
if ARGV[7] == '1' and room > 0 then
  local bytes = 0
  while taken_over < room and bytes < CHUNK_BYTES do
    local value = redis.call('LINDEX', TARGET, 0)
    if not value then break end
    redis.call('ZADD', #value > largest and ASIDE or SENDING, whole(now), packed_anew(value))
    redis.call('LPOP', TARGET)
    taken_over, bytes = taken_over + 1, bytes + #value
  end
end

if taken_over > 0 then redis.call('HINCRBY', MODE, 'taken_over', taken_over) end

local batch = {members = {}, poison = 0, bytes = 0, exhausted = false}
if room > taken_over then
  batch = due_batch(ARGV[5] == 'all' and '+inf' or now, room - taken_over, tonumber(ARGV[4]))
end
local places, resolved = resolve(batch, tonumber(ARGV[2]), ARGV[3] == '1')
local first_due, too_large = '-1', 0
if resolved > 0 then
  first_due = redis.call('ZSCORE', TIMEOUT, batch.members[1])
  for position = 1, resolved do
    local member = batch.members[position]
    local fits = #batch.values[position] <= largest
    local score = redis.call('ZSCORE', TIMEOUT, member)
    if batch.packings[position] == 'old' and is_new(member) then member = packed_anew(batch.values[position]) end
    redis.call('ZADD', fits and SENDING or ASIDE, score, member)
    if not fits then too_large = too_large + 1 end
  end
  leave(batch, places, resolved)
end
local head = redis.call('ZRANGEBYSCORE', TIMEOUT, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {
  resolved, redis.call('ZCOUNT', TIMEOUT, 0, now), head[2] or '-1', now,
  batch.exhausted and resolved == #batch.members and 0 or 1,
  size - resolved, batch.poison, batch.bytes, first_due, taken_over, too_large, redis.call('ZCARD', SENDING),
}
