-- Looks for a live claim, and marks the operation as waited for.
--
-- KEYS[1]  the operation
-- KEYS[2]  the mark of those who wait
-- ARGV[1]  how long the mark lasts, in milliseconds
--
-- Returns how long the claim still lives, in milliseconds, or 0 where there is
-- none.
local header = redis.call('GETRANGE', KEYS[1], 0, 70)
if #header < 71 or string.sub(header, 2, 2) ~= 'C' then
  return 0
end
local left = redis.call('PTTL', KEYS[1]) - struct.unpack('>I8', string.sub(header, 64, 71))
if left <= 0 then
  return 0
end
redis.pcall('SET', KEYS[2], '', 'PX', ARGV[1])
return left
