-- Renews a claim.
--
-- KEYS[1]  the operation
-- ARGV[1]  the claim's header
-- ARGV[2]  the new lease and the claim's retention, in milliseconds
--
-- Returns 1, or 0 where the claim is no longer the operation's latest or is
-- settled.
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
