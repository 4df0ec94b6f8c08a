-- Takes the first or last offered member, due or not, as Redisson's poll and pollLastAndOfferFirstTo do.
--
-- ARGV: 'first' or 'last'. With a sixth key the value goes to the front of that list.
-- Returns: the value, or nil.
local complaint = wrong_type({'list', 'zset', 'list', 'zset', 'zset', 'list'})
if complaint then return complaint end
local member = redis.call('LINDEX', WAITING, ARGV[1] == 'first' and 0 or -1)
if not member then return false end
local at = value_at(member)
if not at then return redis.error_reply('ESCAPEMENTPOISON') end
forget({member})
redis.call(ARGV[1] == 'first' and 'LPOP' or 'RPOP', WAITING)
redis.call('ZREM', TIMEOUT, member)
local value = string.sub(member, at)
if KEYS[6] then redis.call('LPUSH', KEYS[6], value) end
return value
