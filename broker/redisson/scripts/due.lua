-- How many members of several queues are due at or before each of some moments. Reads only.
--
-- KEYS: the set of each queue. ARGV: moments in ms, ascending.
-- Returns: how many keys are no sets, and are left out; then for each moment the members of all others together; what
-- never comes due (negative score) is in none.
local answer = {0}
for place = 1, #ARGV do answer[place + 1] = 0 end
for _, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  if kind == 'zset' then
    for place = 1, #ARGV do
      answer[place + 1] = answer[place + 1] + redis.call('ZCOUNT', key, 0, ARGV[place])
    end
  elseif kind ~= 'none' then
    answer[1] = answer[1] + 1
  end
end
return answer
