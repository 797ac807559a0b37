-- ARGV the id, the token and how long the lease then lasts. Returns whether it was held.
if not leased(ARGV[1], ARGV[2]) then
    return 0
end
redis.call('ZADD', held, 'XX', now + tonumber(ARGV[3]), ARGV[1])
redis.call('ZADD', last, 'XX', now + tonumber(ARGV[3]), ARGV[1])
return 1
