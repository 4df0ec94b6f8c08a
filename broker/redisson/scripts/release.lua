-- Whoever sends for a queue does so no more: the next one need not wait.
--
-- Key: the mode. ARGV: who.
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], 'owner', 'owned_until_ms')
return 1
