-- How many members are due at or before each of some moments. Reads only.
--
-- KEYS: the set of the queue. ARGV: moments in ms, ascending, then what every script gets.
-- Returns: the number of members for each moment; what never comes due (negative score) is in none.
local complaint = wrong_type({'zset'})
if complaint then return complaint end
local answer = {}
for place = 1, #ARGV - 1 do
  answer[place] = redis.call('ZCOUNT', KEYS[1], 0, ARGV[place])
end
return answer
