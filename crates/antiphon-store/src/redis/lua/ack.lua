-- ARGV the id and the token. Returns whether the lease was held.
local entry = leased(ARGV[1], ARGV[2])
if not entry then
    return 0
end
redis.call('XACK', stream, GROUP, entry)
redis.call('XDEL', stream, entry)
redis.call('ZREM', held, ARGV[1])
redis.call('ZREM', last, ARGV[1])
redis.call('HDEL', ids, ARGV[1])
return 1
