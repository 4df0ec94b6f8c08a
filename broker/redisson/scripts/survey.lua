-- What is known of a queue without reading all of it. Reads only.
--
-- ARGV: bytes of each sample shown.
-- Returns: server ms; length of list and size of set; due and still there; never due (negative score); oldest due ms or
-- -1; next due ms or -1; length of the target; entries of the index and of the index of values; members moved aside;
-- then samples: for each its first bytes and its size.
local _, now = clock()
local complaint = wrong_type({'list', 'zset', 'list', 'zset', 'zset', 'zset'})
if complaint then return complaint end
local TARGET, TIMEOUT, WAITING, INDEX, VALUES, ASIDE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local shown = tonumber(ARGV[1])
local oldest = redis.call('ZRANGEBYSCORE', TIMEOUT, 0, now, 'WITHSCORES', 'LIMIT', 0, 1)
local following = redis.call('ZRANGEBYSCORE', TIMEOUT, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
local answer = {
  whole(now), redis.call('LLEN', WAITING), redis.call('ZCARD', TIMEOUT), redis.call('ZCOUNT', TIMEOUT, 0, now),
  redis.call('ZCOUNT', TIMEOUT, '-inf', '(0'), oldest[2] or '-1', following[2] or '-1', redis.call('LLEN', TARGET),
  redis.call('ZCARD', INDEX), redis.call('ZCARD', VALUES), redis.call('ZCARD', ASIDE),
}
local function sample(member)
  if member then
    answer[#answer + 1] = string.sub(member, 1, shown)
    answer[#answer + 1] = #member
  end
end
sample(oldest[1])
sample(following[1])
for place = 0, 3 do sample(redis.call('LINDEX', WAITING, place)) end
for place = -4, -1 do sample(redis.call('LINDEX', WAITING, place)) end
return answer
