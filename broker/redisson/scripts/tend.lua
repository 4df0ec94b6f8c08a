-- Brings the index nearer to the list while there is time. ARGV: members at most. Returns 1 when it is complete.
local complaint = wrong_type({'list', 'zset', 'list', 'zset', 'zset'})
if complaint then return complaint end
return tend(tonumber(ARGV[1])) and 1 or 0
