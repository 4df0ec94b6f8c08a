-- Brings the index nearer to the list while there is time. ARGV: steps.
-- Returns 1 when there is no more to do: it is whole, not needed, or the first due one is in front of the list.
local EXPIRES_SOON_S = 600
local complaint = wrong_type({'list', 'zset', 'list', 'zset', 'zset'})
if complaint then return complaint end
-- What expires by itself is freed while everybody waits, unless the server is told otherwise: seldom before Valkey 8.
local left = redis.call('TTL', VALUES)
if left >= 0 and left < EXPIRES_SOON_S then redis.call('UNLINK', VALUES) end
if redis.call('LLEN', WAITING) >= SMALL and redis.call('EXISTS', INDEX) == 0 then
  local head = redis.call('ZRANGE', TIMEOUT, 0, 0)[1]
  if not head or redis.call('LPOS', WAITING, head, 'MAXLEN', FRONT) then return 1 end
end
if redis.call('LLEN', WAITING) < SMALL then
  tend(0)
  return 1
end
return tend(tonumber(ARGV[1])) and 1 or 0
