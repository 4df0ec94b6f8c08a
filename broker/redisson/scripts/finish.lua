-- Members have arrived in the topic, or never will: takes them out of our set.
--
-- Keys: our set, the mode, what is set aside. ARGV: how many arrived, these, then those that are set aside.
local arrived = tonumber(ARGV[1])
for position = 2, #ARGV do
  local member = ARGV[position]
  local score = redis.call('ZSCORE', KEYS[1], member)
  if score then
    local has_arrived = position <= arrived + 1
    if not has_arrived then redis.call('ZADD', KEYS[3], score, member) end
    redis.call('ZREM', KEYS[1], member)
    redis.call('HINCRBY', KEYS[2], has_arrived and 'sent' or 'refused', 1)
  end
end
return 1
