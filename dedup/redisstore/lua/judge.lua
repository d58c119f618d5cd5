-- Judges a claim that was found, and takes the operation over where that is
-- allowed.
--
-- KEYS[1]  the operation
-- ARGV[1]  the header that was found
-- ARGV[2]  the retention in it, in milliseconds
-- ARGV[3]  the header of the new claim, or nothing where it may not take over
-- ARGV[4]  the new claim's lease and retention, in milliseconds
--
-- Returns how long the claim that was found still lives, in milliseconds; or 0
-- where it is over, -1 where it was taken over, -2 where the operation has
-- changed since it was found.
local found = ARGV[1]
if redis.call('GETRANGE', KEYS[1], 0, #found - 1) ~= found then
  return -2
end
if string.sub(found, 2, 2) == 'C' then
  local left = redis.call('PTTL', KEYS[1]) - tonumber(ARGV[2])
  if left > 0 then
    return left
  end
end
if ARGV[3] == '' then
  return 0
end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
return -1
