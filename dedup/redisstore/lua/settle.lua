-- Completes or releases a claim, and wakes those who wait.
--
-- KEYS[1]  the operation
-- KEYS[2]  the mark of those who wait
-- ARGV[1]  the claim's header
-- ARGV[2]  what the operation holds from now on; its header is as long
-- ARGV[3]  for how long, in milliseconds
-- ARGV[4]  the channel, and
-- ARGV[5]  the message to those who wait
--
-- Returns 1 where the claim is settled so, now or by an earlier try whose reply
-- was lost, and 0 where it is no longer the operation's latest.
local claim = ARGV[1]
local found = redis.call('GETRANGE', KEYS[1], 0, #claim - 1)
if found == string.sub(ARGV[2], 1, #claim) then
  return 1
end
if found ~= claim then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
if redis.call('DEL', KEYS[2]) == 1 then
  redis.pcall('PUBLISH', ARGV[4], ARGV[5])
end
return 1
